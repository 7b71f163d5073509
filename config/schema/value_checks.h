// Checks of single values, beyond type and range. Each returns the broken rule, "must ...", or "".
// rules.cpp has the rules between keys.
#pragma once

#include <string>

#include "support/fields.h"

namespace rondo {

constexpr double kMaxSteps = 1e12;  // upper bound of every number of steps

std::string not_empty(const FieldValue& value);
std::string not_one(const FieldValue& value);
std::string plain_subfolder(const FieldValue& value);
std::string own_subfolder(const FieldValue& value);  // and not the folder itself
std::string run_folder(const FieldValue& value);
std::string file_name(const FieldValue& value);
std::string known_converters(const FieldValue& value);
std::string excludable(const FieldValue& value);
std::string selectors(const FieldValue& value);
std::string buckets(const FieldValue& value);
std::string groups_of_parameters(const FieldValue& value);
std::string ranges_of_steps(const FieldValue& value);
std::string named_paths(const FieldValue& value);
std::string minus_one_or_positive(const FieldValue& value);
std::string op_or_number(const FieldValue& value);
std::string schedule_of_pipeline(const FieldValue& value);
std::string layout_of_pipeline(const FieldValue& value);

// Returns whether `name` is a torch class of schedules that are given as a CSV file.
bool is_schedule_of_csv(const std::string& name);

}  // namespace rondo

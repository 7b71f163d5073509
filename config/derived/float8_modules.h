// Selects modules for float8 by their names, for linear layers and for experts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/derived/divisibility.h"
#include "config/schema/job_config.h"
#include "models/parts/model_spec.h"

namespace rondo {

using BrokenRules = std::vector<BrokenRule>;

// Returns "layers.0.attention.wq" of the weight "layers.0.attention.wq.weight".
std::string module_of(const ParameterRule& rule);

// Returns whether one of the names is a part of the module's name.
bool is_named(const std::vector<std::string>& names, const ParameterRule& rule);

// Returns the model's parameters that `accept` accepts; none of an unknown model.
std::vector<ParameterRule> parameters_that(const JobConfig& config,
                                           const std::function<bool(const ParameterRule&)>& accept);

// Returns why a parameter is not in float8, or "" if it is.
using WhyNot = std::string (*)(const JobConfig&, const ParameterRule&);

// Returns a line per reason: "layers.0.attention.wk, ... and 4 more (sizes are no multiples of
// 128)".
std::vector<std::string> left_out(const JobConfig& config, const std::vector<ParameterRule>& rules,
                                  WhyNot why_not);

// Refuses another recipe than the only one that a section has in this version.
void check_only_recipe(const std::string& section, const std::string& recipe, const std::string& only,
                       BrokenRules& broken);

}  // namespace rondo

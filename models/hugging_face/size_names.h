// Sizes of a model under the names that transformers gives them: what the configurations of all models share. Thread-safe.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "models/hugging_face/fields_reader.h"
#include "models/parts/model_spec.h"
#include "support/fields.h"

namespace rondo::hugging_face {

struct SizeName {
  const char* theirs;
  const char* ours;
  bool required;  // in a file
};

// The scaling of rotary frequencies that a model knows besides "default".
struct RopeScaling {
  const char* type;  // "llama3"
  std::span<const SizeName> sizes;
  std::function<void(FieldsReader&)> more = {};  // what else such an object may hold
};

// Problems go to the reader.
void take_sizes(FieldsReader& reader, std::span<const SizeName> names, const Fields& fields,
                FieldValues& sizes);
// rope_theta, and rope_scaling (transformers 4) or rope_parameters (5).
void take_rope(FieldsReader& reader, const RopeScaling& scaling, const Fields& fields, FieldValues& sizes,
               std::vector<std::string>& problems);

// A rule that the sizes break, blaming the first of its keys under their name.
std::string described(const SizeProblem& problem, std::span<const SizeName> names,
                      std::span<const SizeName> rope_names, const FieldValues& sizes);

}  // namespace rondo::hugging_face

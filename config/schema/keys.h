// All keys of a configuration: the fields of the sections, the sizes of the models, and
// torchtitan's keys for features that this version lacks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/fields.h"

namespace rondo {

struct ModelSpec;  // models/parts/model_spec.h

// Returns the field of a full key ("training.steps", "model.dim" of any model,
// "checkpoint.interval"), or nullptr.
const Field* known_field(std::string_view key);

// Returns whether some key starts with `name` and a dot.
bool is_section(std::string_view name);

// Returns " (did you mean training.steps?)" for an unknown key or section, or "". Suggests sizes of
// `model`, or with nullptr of every model.
std::string suggest_key(std::string_view key, const ModelSpec* model = nullptr);

// Describes a key that the run's model does not have. `model` is nullptr if it is unknown.
//   unknown key (did you mean training.steps?)
//   gpt_oss has no model.attention_chunk; llama3 and llama4 have it
std::string unknown_key(std::string_view key, const ModelSpec* model);

// Returns "training" and "steps" for "training.steps". The section is "" without a dot.
std::string_view section_of(std::string_view key);
std::string_view key_of(std::string_view key);

}  // namespace rondo

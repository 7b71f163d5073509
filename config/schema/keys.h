// Every key that a configuration may hold, whoever owns it: the sections' fields, the models' sizes and
// torchtitan's keys for what is not in this version.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/fields.h"

namespace rondo {

struct ModelSpec;  // models/parts/model_spec.h

// The field of a full key ("training.steps", "model.dim" of any model, "checkpoint.interval"), or nullptr.
const Field* known_field(std::string_view key);

// Some key starts with `name` and a dot.
bool is_section(std::string_view name);

// " (did you mean training.steps?)" for a key or a section that does not exist, or "". `model`: whose sizes
// may be suggested; nullptr: those of every model.
std::string suggest_key(std::string_view key, const ModelSpec* model = nullptr);

// Says what is wrong with a key that the run's model, nullptr where it is not known, does not have:
//   unknown key (did you mean training.steps?)
//   gpt_oss has no model.attention_chunk; llama3 and llama4 have it
std::string unknown_key(std::string_view key, const ModelSpec* model);

// "training", "steps" of "training.steps"; the section is "" where there is no dot.
std::string_view section_of(std::string_view key);
std::string_view key_of(std::string_view key);

}  // namespace rondo

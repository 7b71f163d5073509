// Every key that a configuration may hold, whoever owns it: the sections' fields, the models' sizes and
// torchtitan's keys for what is not in this version.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/fields.h"

namespace rondo {

// The field of a full key ("training.steps", "model.dim" of any model, "checkpoint.interval"), or nullptr.
const Field* known_field(std::string_view key);

// Some key starts with `name` and a dot.
bool is_section(std::string_view name);

// " (did you mean training.steps?)" for a key or a section that does not exist, or "".
std::string suggest_key(std::string_view key);

// "training", "steps" of "training.steps"; the section is "" where there is no dot.
std::string_view section_of(std::string_view key);
std::string_view key_of(std::string_view key);

}  // namespace rondo

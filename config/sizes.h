// The sizes of a model as text, one `key = value` per line. Checkpoints store them.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/manifest.h"
#include "support/fields.h"

namespace rondo {

// Returns the name, the sizes as text, and a fingerprint of both.
checkpoint::ModelFacts model_facts(const std::string& name, const FieldValues& sizes);

// Parses the text. Throws Error(checkpoint) that starts with `where` for a model or a size that
// this version does not know.
FieldValues sizes_from_text(const std::string& model, std::string_view text, const std::string& where);

}  // namespace rondo

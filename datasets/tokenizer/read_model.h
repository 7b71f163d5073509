// Reads the parts of a tokenizer.json that say which ids there are: the model and the added tokens.
// Problems go to the views' source, at most about kMaxProblems of one part.
#pragma once

#include "datasets/tokenizer/format_parts.h"

namespace rondo {

// Reads `model` into file.model, file.token_bytes and file.is_token. REQUIRES: file.normalizer and
// file.stages are read. Removes a last stage of Kind::bytes if the model encodes bytes itself.
Vocabulary read_model(const JsonView& model, TokenizerFile& file);

// Reads `added_tokens`, and adds them to `ids`. Without `checks_ids`, because the model has
// problems, reports problems only. REQUIRES: read_model was called.
void read_added_tokens(const JsonView& tokens, bool checks_ids, Vocabulary& ids, TokenizerFile& file);

}  // namespace rondo

// Reads tekken.json, the tokenizer file of Mistral AI's package mistral-common. The ids are those
// of Tekkenizer.encode(text, bos=False, eos=False): text never becomes a special token.
#pragma once

#include "datasets/tokenizer/format_parts.h"

namespace rondo {

// Returns whether a JSON document is a tekken.json.
bool is_tekken(const nlohmann::json& document);

// Reports problems to the view's source. Names BOS and EOS in `ends`.
Vocabulary read_tekken(const JsonView& root, TokenizerFile& file, FormatEnds& ends);

}  // namespace rondo

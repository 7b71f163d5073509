// Reads the pre_tokenizer of a tokenizer.json as stages of a Splitter.
#pragma once

#include <vector>

#include "datasets/tokenizer/split/splitter.h"
#include "support/text/json_view.h"

namespace rondo {

// Reads a ByteLevel, or a Sequence of Splits that ends in one. Throws Error(data) for
// everything else.
std::vector<SplitStage> read_split_stages(const JsonView& pre_tokenizer);

}  // namespace rondo

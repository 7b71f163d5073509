// The byte tokenizer and the type of a row of ids, for tests of batches.
#pragma once

#include <cstdint>
#include <vector>

#include "datasets/tokenizer/tokenizer.h"

namespace rondo {

inline const ByteTokenizer kTokenizer;
using Row = std::vector<std::int64_t>;

}  // namespace rondo

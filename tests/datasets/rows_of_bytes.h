// What tests of batches share: text as bytes, and a row of their ids.
#pragma once

#include <cstdint>
#include <vector>

#include "datasets/tokenizer/tokenizer.h"

namespace rondo {

inline const ByteTokenizer kTokenizer;
using Row = std::vector<std::int64_t>;

}  // namespace rondo

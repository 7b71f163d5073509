// Short documents for flash attention on CUDA: Note [Short documents] in ops/attention/attention_cuda.cpp.
#pragma once

#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo {

// Documents with fewer tokens than this are not flash's.
inline constexpr std::int64_t kShortDocument = 128;

// How many sequences flash needs at most for so many rows of the batch of so many tokens each, whatever documents they
// hold: each row begins one, each long document does, and so does what follows a long document.
RONDO_DEVICE constexpr std::int64_t most_sequences(std::int64_t rows, std::int64_t tokens,
                                                   std::int64_t shorter_than = kShortDocument) {
  return rows + 2 * (rows * tokens / shorter_than);
}

// Whether a sequence begins with document i of `borders` (ops/attention/attention.h). Long documents are sequences of their
// own; what short ones lie between them in a row are one together.
RONDO_DEVICE inline bool sequence_begins(const std::int32_t* borders, std::int64_t i, std::int64_t tokens,
                                         std::int64_t shorter_than) {
  const std::int32_t begin = borders[i], length = borders[i + 1] - begin;
  if (length == 0) return false;
  return begin % tokens == 0 || length >= shorter_than || (i > 0 && begin - borders[i - 1] >= shorter_than);
}

}  // namespace rondo

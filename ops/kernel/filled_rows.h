// The number of valid rows of a matrix, for the kernels of every device. No LibTorch.
#pragma once

#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo {

// Returns *count, limited to [0, rows], or `rows` if `count` is null.
RONDO_DEVICE inline std::int64_t filled_rows(const std::int32_t* count, std::int64_t rows) {
  if (count == nullptr) return rows;
  const std::int64_t n = *count;
  return n < 0 ? 0 : (n > rows ? rows : n);
}

}  // namespace rondo

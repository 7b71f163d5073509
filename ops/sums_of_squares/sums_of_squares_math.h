// The order of a sum (ops/sums_of_squares/sums_of_squares.h), shared by CPU and CUDA. No LibTorch.
//
// Elements are added in chunks, and then the chunks' sums in the same way. Lane l of kLanes adds
// elements l, l + kLanes, l + 2 kLanes, .... Then the upper half of the lanes is added to the lower
// half, until one lane is left.
#pragma once

#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo::squares {

constexpr int kLanes = 256;
constexpr std::int64_t kChunk = 64 * kLanes;  // elements

constexpr std::int64_t chunks_of(std::int64_t count) { return (count + kChunk - 1) / kChunk; }

RONDO_DEVICE inline double square(double x) { return x * x; }

}  // namespace rondo::squares

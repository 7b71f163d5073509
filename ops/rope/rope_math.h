// The arithmetic of one pair of a rotary embedding (ops/rope/rope.h), shared by CPU and CUDA. No
// LibTorch.
#pragma once

#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo::rope {

// Layout of the pairs of a head: pair i is at [i * step] and [i * step + second].
struct Pairs {
  std::int64_t step, second;
};
RONDO_DEVICE inline Pairs pairs(std::int64_t width, bool interleaved) {
  return interleaved ? Pairs{2, 1} : Pairs{1, width / 2};
}

// T is float or double, or on the CPU a vector of them.
template <class T>
struct Pair {
  T first, second;
};
template <class T>
RONDO_DEVICE inline Pair<T> apply_rotary(const T& first, const T& second, const T& cos, const T& sin) {
  return {first * cos - second * sin, second * cos + first * sin};
}

}  // namespace rondo::rope

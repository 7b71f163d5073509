// Stochastic rounding of f32 to bf16, for hosts and devices: a value between two neighbours becomes
// the upper one with the probability of its fraction, so that its mean is the value. Each element
// has 16 random bits. They are a function of the tensor's stream, the step, the kind of value and
// the element's index in the whole tensor, so devices and layouts have the same bits. No LibTorch.
//
// Eight neighbours share a call of Philox4x32-7 (ops/random/philox.h): key the stream, counter
// (index / 8, step, kind).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/kernel/device.h"
#include "ops/random/philox.h"

namespace rondo {

constexpr int kDrawGroup = 8;  // elements that share a call of the generator

// Returns the draw of element k of a group, below 2^16.
RONDO_DEVICE inline std::uint32_t draw_of(const PhiloxWords& group, int k) {
  // Not group.at[k / 2]: an array that is indexed at run time is in a GPU's local memory.
  const std::uint32_t word =
      k < 4 ? (k < 2 ? group.at[0] : group.at[1]) : (k < 6 ? group.at[2] : group.at[3]);
  return k % 2 == 0 ? word & 0xffff : word >> 16;
}

// Returns x, which is not a nan, after the draw, below 2^16, is added to its bits. The upper 16 of
// the result are x in bf16: the neighbour of larger magnitude if the lower bits carry.
RONDO_DEVICE inline std::uint32_t with_draw(float x, std::uint32_t draw) {
  std::uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits + draw;
}

constexpr std::uint32_t kNan = 0x7fc00000;

// Returns the bits of x in bf16. Values of bf16 and infinities stay. The neighbour of the largest
// finite value is infinity, as in rounding to nearest. A nan becomes 0x7fc0.
RONDO_DEVICE inline std::uint16_t stochastic_bf16(float x, std::uint32_t draw) {
  return static_cast<std::uint16_t>((x != x ? kNan : with_draw(x, draw)) >> 16);
}

// The draws of the elements of a shard. A rank computes with a part of the whole tensor, which is
// flattened, and stores some of the part's elements.
struct RoundingDraws {
  std::int64_t stream = 0;  // of the seed and the tensor's name
  // Element j of the part is element first + j / row * pitch + j % row of the whole tensor. `row`
  // and `pitch` are positive, and equal if the part is contiguous.
  std::int64_t first = 0, row = 1, pitch = 1;
  std::int64_t begin = 0;  // element of the part at the shard's first
  static constexpr std::size_t kInts = 5;

  RONDO_DEVICE bool is_contiguous() const { return row == pitch; }
  // Returns the index in the whole tensor of element i of the shard.
  RONDO_DEVICE std::int64_t index(std::int64_t i) const {
    const auto j = static_cast<std::uint64_t>(begin + i), of_row = static_cast<std::uint64_t>(row);
    if (is_contiguous()) return first + begin + i;
    return first + static_cast<std::int64_t>(j / of_row) * pitch + static_cast<std::int64_t>(j % of_row);
  }
  // Returns the elements from i on, i included, that are neighbours in the whole tensor.
  RONDO_DEVICE std::int64_t neighbors(std::int64_t i) const {
    return is_contiguous() ? INT64_MAX : row - (begin + i) % row;
  }
  // Returns whether elements i to i + 7 of the shard are a group for each i that 8 divides.
  RONDO_DEVICE bool is_aligned() const {
    if (is_contiguous()) return (first + begin) % kDrawGroup == 0;
    return first % kDrawGroup == 0 && row % kDrawGroup == 0 && pitch % kDrawGroup == 0 &&
           begin % kDrawGroup == 0;
  }
  // Returns the words of a group, the whole tensor's elements from 8 * group on. `kind` tells apart
  // values of one element, which have independent draws.
  RONDO_DEVICE PhiloxWords words(std::int64_t group, std::uint32_t step, std::uint32_t kind) const {
    const auto counter = static_cast<std::uint64_t>(group), key = static_cast<std::uint64_t>(stream);
    return philox<7>(
        {{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), step, kind}},
        static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
  }
};

}  // namespace rondo

// Sorts slots by key (a mixture's slots by expert), stable, as one dispatcher op without a host
// sync on devices:
//
//   rondo::sort_slots(keys, kinds) -> (order, place, counts)
//     keys int64 [N], in [0, kinds)
//     order int64 [N]: the r-th slot by key, and then by position, is order[r]
//     place int64 [N]: the inverse; slot s is the place[s]-th
//     counts int32 [kinds]: how often each key occurs
//
// On CUDA there are at most 1,024 kinds. Keys must be less than 2^31 in number.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace rondo {

struct SortedSlots {
  at::Tensor order_N, place_N, counts;
};

// Not differentiable. On the CPU, throws Error(internal) for a key out of range.
SortedSlots sort_slots(const at::Tensor& keys_N, std::int64_t kinds);

// Returns the number of slots of all kinds, int32 []: the last end of a kind. Slots from there on
// are of no kind.
at::Tensor count_of(const at::Tensor& ends);

// Checks the operands and allocates the results, for the kernels of every device and the shape
// rule.
std::tuple<at::Tensor, at::Tensor, at::Tensor> sort_slots_results(const at::Tensor& keys_N,
                                                                  std::int64_t kinds);

}  // namespace rondo

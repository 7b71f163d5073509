// A counting sort.
#include "ops/sort_slots/sort_slots.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/kernel/check_operand.h"
#include "ops/kernel/op_handle.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor, Tensor> sort_slots_cpu(const Tensor& keys_in, std::int64_t kinds) {
  auto results = sort_slots_results(keys_in, kinds);
  const Tensor keys_N = keys_in.contiguous();
  const std::int64_t slots = keys_N.numel();
  const auto* const keys = keys_N.const_data_ptr<std::int64_t>();
  auto* const order = std::get<0>(results).mutable_data_ptr<std::int64_t>();
  auto* const place = std::get<1>(results).mutable_data_ptr<std::int64_t>();
  auto* const counts = std::get<2>(results).mutable_data_ptr<std::int32_t>();
  std::fill(counts, counts + kinds, 0);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    RONDO_ASSERT(keys[slot] >= 0 && keys[slot] < kinds, "sort_slots: keys must be less than the kinds");
    ++counts[keys[slot]];
  }
  std::vector<std::int64_t> next(static_cast<std::size_t>(kinds));
  std::exclusive_scan(counts, counts + kinds, next.begin(), std::int64_t{0});
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    place[slot] = next[static_cast<std::size_t>(keys[slot])]++;
    order[place[slot]] = slot;
  }
  return results;
}

}  // namespace

SortedSlots sort_slots(const Tensor& keys, std::int64_t kinds) {
  static const auto handle = op_handle<decltype(sort_slots_cpu)>("rondo::sort_slots");
  auto [order, place, counts] = handle.call(keys, kinds);
  return {std::move(order), std::move(place), std::move(counts)};
}

Tensor count_of(const Tensor& ends) { return ends.select(0, ends.size(0) - 1); }

std::tuple<Tensor, Tensor, Tensor> sort_slots_results(const Tensor& keys, std::int64_t kinds) {
  check_operand("sort_slots", "keys", keys, {keys.numel()}, at::kLong);
  RONDO_ASSERT(keys.numel() <= std::numeric_limits<std::int32_t>::max(), "sort_slots: too many keys");
  return {at::empty(keys.sizes(), keys.options()), at::empty(keys.sizes(), keys.options()),
          at::empty({kinds}, keys.options().dtype(at::kInt))};
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("sort_slots(Tensor keys, int kinds) -> (Tensor order, Tensor place, Tensor counts)");
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("sort_slots", &sort_slots_cpu); }
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("sort_slots", &sort_slots_results); }

}  // namespace rondo

// Sorted slots on the CPU against ATen's stable sort.
#include "ops/sort_slots/sort_slots.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/ops/op_case.h"

namespace rondo {

using at::Tensor;

TEST_CASE("slots are sorted by key and then by position, with their places and the counts of keys") {
  const std::int64_t kinds = GENERATE(1, 7, 300);
  const Tensor keys = at::randint(kinds, {GENERATE(0, 1, 1000)}, at::kLong);
  const std::vector<Tensor> sorted = checked_call("sort_slots", {keys, kinds});
  CHECK(at::equal(sorted[0], std::get<1>(at::sort(keys, /*stable=*/true, 0, /*descending=*/false))));
  CHECK(at::equal(sorted[1], at::argsort(sorted[0])));
  CHECK(at::equal(sorted[2], at::bincount(keys, {}, kinds).to(at::kInt)));
}

TEST_CASE("sort_slots refuses keys out of range and of another type") {
  const Tensor keys = at::zeros({3}, at::kLong);
  CHECK_THROWS(sort_slots(keys - 1, 4));
  CHECK_THROWS(sort_slots(keys + 4, 4));
  check_refused("keys is Int [3], but must be Long [3]", "sort_slots", {keys.to(at::kInt), std::int64_t{4}});
  check_refused("keys is Long [3, 1], but must be Long [3]", "sort_slots",
                {keys.view({3, 1}), std::int64_t{4}});
}

}  // namespace rondo

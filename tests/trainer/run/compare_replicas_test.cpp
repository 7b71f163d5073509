#include "trainer/run/compare_replicas.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace rondo {
namespace {

TEST_CASE("the sums of a tensor change with every flipped bit, at any place") {
  const auto dtype = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  for (const std::int64_t size : {1, 127, 128, 1000, 4096}) {
    at::Tensor tensor = at::randn({size}).to(dtype);
    const at::Tensor sums = bit_sums(tensor);
    CHECK(sums.sizes() == at::IntArrayRef{64});
    CHECK(at::equal(sums, bit_sums(tensor.clone())));
    auto* bytes = static_cast<unsigned char*>(tensor.data_ptr());
    for (const std::size_t byte : {std::size_t{0}, tensor.nbytes() / 2, tensor.nbytes() - 1})
      for (const int bit : {1, 128}) {
        bytes[byte] = static_cast<unsigned char>(bytes[byte] ^ bit);
        INFO(size << " elements, byte " << byte << ", bit " << bit);
        CHECK_FALSE(at::equal(sums, bit_sums(tensor)));
        bytes[byte] = static_cast<unsigned char>(bytes[byte] ^ bit);
      }
  }
}

TEST_CASE("sums distinguish the sign of zero, and are defined for no elements and for a scalar") {
  CHECK_FALSE(at::equal(bit_sums(at::zeros({3})), bit_sums(at::full({3}, -0.0))));
  CHECK(at::equal(bit_sums(at::zeros({0})), bit_sums(at::zeros({}))));
  CHECK_FALSE(at::equal(bit_sums(at::ones({})), bit_sums(at::zeros({}))));
}

TEST_CASE("among three replicas the odd one is named, and two replicas are a tie") {
  const Mesh three(6, {1, 3, 2, 1, 1}), two(4, {1, 2, 2, 1, 1});
  CHECK_FALSE(first_odd_ranks({7, 8, 7, 8, 7, 8}, three, Axis::dp_replicate));
  const auto odd = first_odd_ranks({7, 9, 7, 8, 7, 8}, three, Axis::dp_replicate);
  REQUIRE(odd);
  CHECK(odd->usual == 3);
  CHECK(odd->odd == std::vector<std::int64_t>{1});
  CHECK_FALSE(odd->tie);
  const auto either = first_odd_ranks({7, 8, 7, 9}, two, Axis::dp_replicate);
  REQUIRE(either);
  CHECK(either->usual == 1);
  CHECK(either->odd == std::vector<std::int64_t>{3});
  CHECK(either->tie);
}

TEST_CASE("whole tensors are compared over all ranks of a stage, in any layout") {
  const Mesh mesh(4, {1, 1, 2, 1, 2});
  CHECK_FALSE(first_odd_ranks({1, 2, 3, 4}, mesh, Axis::dp_replicate));  // shards of one copy
  const auto odd = first_odd_ranks({5, 5, 6, 5}, mesh, kAllAxes);
  REQUIRE(odd);
  CHECK(odd->usual == 0);
  CHECK(odd->odd == std::vector<std::int64_t>{2});
  // A pipeline compares the ranks of a stage.
  const Mesh stages(4, {2, 1, 2, 1, 1});
  CHECK_FALSE(first_odd_ranks({5, 5, 6, 6}, stages, kStageAxes));
  CHECK(first_odd_ranks({5, 5, 6, 7}, stages, kStageAxes)->odd == std::vector<std::int64_t>{3});
}

}  // namespace
}  // namespace rondo

// Comparisons of checkpoints for tests.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/reader.h"

namespace rondo {

// Checks that the tensors of two checkpoints whose names begin with `prefix` have the same bits, in
// any layouts. Returns their number.
inline std::size_t check_same_tensors(const std::filesystem::path& a, const std::filesystem::path& b,
                                      std::string_view prefix = "") {
  checkpoint::Reader left(a), right(b);
  std::size_t compared = 0;
  for (const checkpoint::TensorRecord& tensor : left.manifest().tensors) {
    if (!tensor.name.starts_with(prefix)) continue;
    INFO(tensor.name);
    const auto* other = right.manifest().find(tensor.name);
    REQUIRE(other != nullptr);
    REQUIRE(tensor.shape == other->shape);
    REQUIRE(tensor.dtype == other->dtype);
    const std::int64_t count = checkpoint::elements_of(tensor.shape, tensor.dtype);
    const auto bytes = static_cast<std::size_t>(count * checkpoint::dtype_bytes(tensor.dtype));
    std::vector<std::byte> ours(bytes), theirs(bytes);
    left.read(tensor.name, 0, count, ours);
    right.read(tensor.name, 0, count, theirs);
    CHECK((ours == theirs));  // not printed: thousands of numbers
    ++compared;
  }
  return compared;
}

struct Difference {
  double relative = 0;  // to the largest element of its tensor in `a`
  std::string tensor;
  std::size_t compared = 0;  // tensors
};

// Returns the largest difference of any element among the fp32 tensors of two checkpoints whose
// names begin with `prefix`.
inline Difference largest_difference(const std::filesystem::path& a, const std::filesystem::path& b,
                                     std::string_view prefix) {
  checkpoint::Reader left(a), right(b);
  Difference worst;
  for (const checkpoint::TensorRecord& tensor : left.manifest().tensors) {
    if (!tensor.name.starts_with(prefix)) continue;
    INFO(tensor.name);
    REQUIRE(tensor.dtype == "f32");
    const std::int64_t count = checkpoint::elements_of(tensor.shape, tensor.dtype);
    std::vector<float> ours(static_cast<std::size_t>(count)), theirs(ours.size());
    left.read(tensor.name, 0, count, std::as_writable_bytes(std::span(ours)));
    right.read(tensor.name, 0, count, std::as_writable_bytes(std::span(theirs)));
    double largest = 0, apart = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(ours[i])));
      apart = std::max(apart, std::abs(static_cast<double>(ours[i]) - static_cast<double>(theirs[i])));
    }
    REQUIRE(largest > 0);  // zeros would prove nothing
    ++worst.compared;
    if (apart / largest > worst.relative) worst = {apart / largest, tensor.name, worst.compared};
  }
  return worst;
}

}  // namespace rondo

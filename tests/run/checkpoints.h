// What tests ask of checkpoints.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/reader.h"

namespace rondo {

// The tensors of two checkpoints whose names begin with `prefix` have the same bits, whoever wrote them. Returns how many.
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
    CHECK(ours == theirs);
    ++compared;
  }
  return compared;
}

}  // namespace rondo

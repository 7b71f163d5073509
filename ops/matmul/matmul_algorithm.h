// A product, and an algorithm of cuBLASLt for it as text, so that what was measured once holds in every later
// run. The text has the library's version, the bytes of workspace that the algorithm wants, and the eight
// words of its cublasLtMatmulAlgo_t in hexadecimal: "130100:4194304:42.1c0024.0.0.0.0.0.0". cuBLASLt's
// manual: the struct can be stored, and restored for the same version of the library.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rondo {

struct MatmulAlgorithm {
  std::uint64_t library = 0;  // cublasLtGetVersion()
  std::int64_t workspace_bytes = 0;
  std::array<std::uint64_t, 8> words{};

  bool operator==(const MatmulAlgorithm&) const = default;
};

// What decides how fast a product is, beside the device.
struct MatmulShape {
  std::array<std::int64_t, 2> a_sizes{}, a_strides{}, b_sizes{}, b_strides{};
  bool adds = false;  // to a sum
};

std::string to_text(const MatmulAlgorithm& algorithm);
// std::nullopt where the text is none.
std::optional<MatmulAlgorithm> parse_matmul_algorithm(std::string_view text);

}  // namespace rondo

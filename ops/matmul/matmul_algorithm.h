// An algorithm of cuBLASLt for a product, as text, so that measurements are valid in later runs.
// The text has the library's version, the bytes of workspace of the algorithm, and the eight words
// of its cublasLtMatmulAlgo_t in hexadecimal: "130100:4194304:42.1c0024.0.0.0.0.0.0". According to
// cuBLASLt's manual, the struct can be stored, and restored with the same version of the library.
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

// The properties of a product that determine its time on a device.
struct MatmulShape {
  std::array<std::int64_t, 2> a_sizes{}, a_strides{}, b_sizes{}, b_strides{};
  bool adds = false;  // to a sum
};

std::string to_text(const MatmulAlgorithm& algorithm);
// Returns std::nullopt if the text is not an algorithm.
std::optional<MatmulAlgorithm> parse_matmul_algorithm(std::string_view text);

}  // namespace rondo

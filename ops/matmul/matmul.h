// Products by a chosen algorithm of cuBLASLt (compiler/passes/choose_matmul_algorithms.cpp).
//
//   rondo::mm(Tensor a, Tensor b, str algorithm) -> Tensor                           a b
//   rondo::addmm(Tensor sum, Tensor a, Tensor b, str algorithm) -> Tensor            sum + a b
//   rondo::addmm_(Tensor(a!) sum, Tensor a, Tensor b, str algorithm) -> Tensor(a!)   in place
//
// a [M, K] and b [K, N] have dense rows or dense columns; sum [M, N] is contiguous. All are bf16,
// accumulated in fp32 and rounded once, and begin at multiples of 16 bytes. `algorithm`:
// matmul_algorithm.h. On the CPU any algorithm is accepted, and the product is aten's.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ops/matmul/matmul_algorithm.h"

namespace rondo {

struct MeasuredAlgorithm {
  MatmulAlgorithm algorithm;
  double seconds = 0;
};
struct MatmulTimes {
  double aten_s = 0;                          // of aten's product
  std::vector<MeasuredAlgorithm> algorithms;  // fastest first, without those whose bits may vary
};

// Measures the algorithms that cuBLASLt proposes for a bf16 product, on random numbers that no
// cache holds, alternating with aten's product. Returns medians. Runs on the current stream of
// `device` and waits for it. Throws Error(environment) in a build without CUDA.
MatmulTimes measure_matmul(const MatmulShape& shape, c10::Device device);

}  // namespace rondo

// Products by an algorithm of cuBLASLt that somebody chose (compiler/passes/choose_matmul_algorithms.cpp).
//
//   rondo::mm(Tensor a, Tensor b, str algorithm) -> Tensor                           a b
//   rondo::addmm(Tensor sum, Tensor a, Tensor b, str algorithm) -> Tensor            sum + a b, rounded once
//   rondo::addmm_(Tensor(a!) sum, Tensor a, Tensor b, str algorithm) -> Tensor(a!)   the same, in the sum
//
// a [M, K] and b [K, N] with dense rows or dense columns, sum [M, N] contiguous; bf16, added up in fp32. All
// begin at multiples of 16 bytes. `algorithm`: matmul_algorithm.h. On the CPU nothing is to choose, so any
// will do, and the product is aten's.
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
  std::vector<MeasuredAlgorithm> algorithms;  // the fastest first; without those whose bits may vary
};

// Runs what cuBLASLt proposes for a product of bf16, on drawn numbers that no cache holds, in turns with
// aten's product. Medians, on the current stream of `device`, which it waits for. Throws Error(environment)
// in a build without CUDA.
MatmulTimes measure_matmul(const MatmulShape& shape, c10::Device device);

}  // namespace rondo

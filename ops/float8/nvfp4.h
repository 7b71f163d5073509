// Matrices of NVFP4 for products of linear layers, by the recipe of NVIDIA ("Pretraining Large
// Language Models with NVFP4", 2025, arXiv 2509.25149, appendices A to C).
//
//   rondo::quantize_nvfp4(Tensor x, bool squares, bool rotate, int? stream)
//       -> (Tensor values, Tensor scales)
//     x [M, K], dense rows or dense columns, f32, bf16 or, on the CPU, f64, which is rounded to f32
//     first. M and K are multiples of 16. x is about value times scale.
//
//     values [M, K] are numbers of E2M1 (0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives). They are
//     contiguous, one a byte, as float8_e4m3fn, which has each of these numbers: LibTorch has no
//     arithmetic for two of them in a byte, and so rondo::float8_mm (ops/float8/float8.h) reads
//     them as they are.
//
//     scales [M, K / 16], f32, contiguous, are of 1 x 16 numbers or, with `squares`, of 16 x 16,
//     repeated for each row. A scale is a number of E4M3 times the scale of the matrix, which is
//     its largest magnitude / (6 * 448). The number of E4M3 is the block's largest magnitude / 6 in
//     units of that scale, between 2^-6 and 448. A matrix with a nan or an infinity has scales that
//     are nans.
//
//     `rotate`: the numbers are those of x after each 1 x 16 was multiplied by signs and by a
//     Hadamard matrix / 4. Rotations of both operands of a product cancel out.
//
//     `stream`: values are rounded stochastically: to either neighbour, with the probability that
//     keeps the mean. Each element has 16 random bits of ops/random/stochastic_rounding.h, which
//     are a function of the stream, the element's index and the sum of the bits of all elements of
//     x. So they need no state, and differ from step to step with x. Without a stream values are
//     rounded to nearest, ties to even.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace rondo {

constexpr std::int64_t kNvfp4Block = 16;

struct Nvfp4Options {
  bool squares = false, rotate = false;
  std::optional<std::int64_t> stream = {};
};

std::tuple<at::Tensor, at::Tensor> quantize_nvfp4(const at::Tensor& x, const Nvfp4Options& options);

// Checks x and allocates the results. Throws Error(internal) for operands other than described
// above.
std::tuple<at::Tensor, at::Tensor> quantize_nvfp4_result(const at::Tensor& x);

// The CUDA kernel reads these tensors.
struct Nvfp4Operand {
  at::Tensor x;        // [M, K], f32, contiguous, rotated
  at::Tensor largest;  // [], f32: its largest magnitude, with nans
  at::Tensor bits;     // [], i64: the sum of the bits of the elements; undefined without a stream
};
// Rotates x by ops of LibTorch, and finds what its scales and draws depend on. `stochastic`: `bits`
// is needed.
Nvfp4Operand nvfp4_operand(const at::Tensor& x, bool rotate, bool stochastic);

}  // namespace rondo

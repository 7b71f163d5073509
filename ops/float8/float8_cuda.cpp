// Products are LibTorch's (_scaled_mm_v2), cuBLASLt's on Hopper. They support one scale per matrix
// for both, one per row for both, or scales of 1 x 128 and of 128 x 128 in any combination but two
// of 128 x 128. Scales of other combinations are expanded to one per row, or one per 128 elements
// of a row.
#include "ops/float8/float8_cuda.h"

#include <ATen/BlasBackend.h>
#include <ATen/TensorOperators.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/_scaled_mm_v2.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/library.h>

#include "ops/float8/float8.h"
#include "ops/kernel/launch.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor, at::blas::ScalingType;

// Quantizes a matrix; or a stack of them, transposed.
void quantize(const cuda::Launch& launch, const cuda::Float8Source& source, cuda::Float8Share share,
              const Float8Matrix& result, bool power_of_two) {
  const auto& [values, scales] = result;
  const std::int64_t row = scales.dim() - 2;
  const cuda::Float8Target target{
      static_cast<std::uint8_t*>(values.mutable_data_ptr()),
      scales.mutable_data_ptr<float>(),
      scales.stride(row),
      scales.stride(row + 1),
      values.scalar_type() == at::kFloat8_e4m3fn ? float8::Format::e4m3 : float8::Format::e5m2,
      power_of_two};
  // Allocated after the results, which may have the same size: the first request gets the planned
  // address.
  const Tensor workspace = at::empty({cuda::float8_workspace(source, share)}, scales.options());
  cuda::quantize_float8(source, share, target, workspace.mutable_data_ptr<float>(), launch.stream());
  launch.check();
}

// The kernel knows no squares of stacks of dense columns, so these are copied.
Float8Matrix quantize_float8_cuda(const Tensor& operand, std::int64_t block_rows, std::int64_t block_columns,
                                  at::ScalarType dtype, bool power_of_two) {
  using enum cuda::Float8Share;
  const cuda::Launch launch(operand, "quantize_float8");
  Float8Matrix result = quantize_float8_result(operand, block_rows, block_columns, dtype);
  if (block_columns == kMxBlock) return quantize_mx(operand, result), result;
  const Tensor x = operand.dim() == 3 && block_columns != 0 ? operand.contiguous() : operand;
  const cuda::Float8Share share =
      block_columns == 0 ? (block_rows == 0 ? whole : row) : (block_rows == 1 ? piece : square);
  const std::int64_t first = x.dim() - 2;  // the dimension of rows
  const bool dense_rows = x.dim() == 3 ? x.is_contiguous() : x.stride(1) == 1;
  cuda::Float8Source source{x.size(first),      x.size(first + 1), launch.element(x),
                            x.const_data_ptr(), dense_rows,        x.stride(dense_rows ? first : first + 1)};
  // A stack of dense rows is one matrix.
  if (first == 1) (dense_rows ? source.rows : source.matrices) *= x.size(0);
  quantize(launch, source, share, result, power_of_two);
  return result;
}

// Quantizes runs by rows, or in pieces of rows, which include the rows after the last end; these
// are zeroed afterwards.
Float8Matrix quantize_float8_runs_cuda(const Tensor& x, const Tensor& ends, std::int64_t block_columns) {
  const cuda::Launch launch(x, "quantize_float8_runs");
  Float8Matrix result = quantize_float8_runs_result(x, ends, block_columns);
  if (x.size(0) == 0) return result;
  cuda::Float8Source source{x.size(0),          x.size(1),           launch.element(x),
                            x.const_data_ptr(), /*dense_rows=*/true, x.stride(0)};
  if (block_columns != 0) {
    if (block_columns == kMxBlock)
      quantize_mx(x, result);
    else
      quantize(launch, source, cuda::Float8Share::piece, result, /*power_of_two=*/true);
    const Tensor is_behind = at::arange(x.size(0), ends.options()).ge(ends[-1]).unsqueeze(1);
    std::get<0>(result).view(at::kByte).masked_fill_(is_behind, 0);
    std::get<1>(result).masked_fill_(is_behind, 1);
    return result;
  }
  const Tensor runs = ends.contiguous();
  source.rows_end = runs.const_data_ptr<std::int32_t>() + runs.size(0) - 1;
  quantize(launch, source, cuda::Float8Share::row, result, /*power_of_two=*/true);
  return result;
}

// Returns one scale per row, [rows, 1]. REQUIRES: each row has one scale.
Tensor scales_of_rows(const Tensor& values, const Tensor& scales) {
  const std::int64_t rows = values.size(0), blocks = scales.size(0);
  return scales.narrow(1, 0, 1).expand({blocks, rows / blocks}).reshape({rows, 1}).contiguous();
}

struct Scaling {
  ScalingType type;
  Tensor scales;
};

// `block` is the block of these scales.
Scaling scaling_of_blocks(const Tensor& values, const Tensor& scales, const Float8Block& block) {
  const std::int64_t columns = values.size(1);
  if (block.columns == columns) {
    const Tensor of_pieces = scales_of_rows(values, scales).expand({-1, columns / kFloat8Block});
    return {ScalingType::BlockWise1x128, of_pieces.t().contiguous().t()};
  }
  if (block.rows == 1) return {ScalingType::BlockWise1x128, scales.t().contiguous().t()};
  return {ScalingType::BlockWise128x128, scales.contiguous().t()};
}

// For a scale per row, LibTorch 2.11 calls cuBLASLt on Hopper, and a more restricted kernel
// elsewhere.
void require_support(const Tensor& b, at::ScalarType dtype, ScalingType type) {
  const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(b.device().index());
  const bool hopper = gpu.major == 9, rows = type == ScalingType::RowWise;
  const bool of_hopper = (rows && (dtype == at::kFloat || b.scalar_type() != at::kFloat8_e4m3fn)) ||
                         type == ScalingType::BlockWise1x128 || type == ScalingType::BlockWise128x128;
  if (hopper || (!of_hopper && (gpu.major > 8 || (gpu.major == 8 && gpu.minor == 9)))) return;
  throw Error(
      ExitCode::environment,
      fmt::format("quantize.linear.float8: products of float8 {}require a GPU of compute capability {}, "
                  "but {} has {}.{}; set quantize.linear.float8.emulate = true, which works on any GPU",
                  !of_hopper ? ""
                  : rows     ? "with a scale per row, of float32 or by float8_e5m2, "
                             : "with scales of 128 elements ",
                  of_hopper ? "9.0 (Hopper)" : "8.9 or above", gpu.name, gpu.major, gpu.minor));
}

Tensor float8_mm_cuda(const Tensor& a, const Tensor& scale_a, const Tensor& b, const Tensor& scale_b,
                      at::ScalarType dtype, bool fast_accumulation, bool emulate) {
  const cuda::Launch launch(a, "float8_mm");
  Tensor result = float8_mm_result(a, scale_a, b, scale_b, dtype);
  if (emulate) return emulated_float8_mm(a, scale_a, b, scale_b, dtype);
  RONDO_ASSERT(a.size(1) % 16 == 0 && b.size(0) % 16 == 0,
               "float8_mm: on a GPU, sizes of rows and columns must be multiples of 16");
  const Float8Block block_a = float8_block(a, scale_a), block_b = float8_block(b, scale_b);
  const auto is_small = [&](const Float8Block& block) {
    return block.columns < kFloat8Block && block.columns < a.size(1);
  };
  RONDO_ASSERT(!is_small(block_a) && !is_small(block_b),
               "float8_mm: products with scales of 32 or 16 elements are emulated only");
  // The sum of a piece is scaled separately and has no fast variant.
  const bool of_pieces = block_a.columns < a.size(1) || block_b.columns < b.size(1);
  Scaling of_a, of_b;
  if (of_pieces) {
    of_a = scaling_of_blocks(a, scale_a, block_a);
    of_b = scaling_of_blocks(b, scale_b, block_b);
    RONDO_ASSERT(a.scalar_type() == b.scalar_type(),
                 "float8_mm: with scales of 128 elements both matrices must be float8_e4m3fn");
    RONDO_ASSERT(of_a.type != ScalingType::BlockWise128x128 || of_b.type != ScalingType::BlockWise128x128,
                 "float8_mm: a or b must have scales of pieces of rows");
  } else if (block_a.rows == a.size(0) && block_b.rows == b.size(0)) {
    of_a = {ScalingType::TensorWise, scale_a.narrow(1, 0, 1)};
    of_b = {ScalingType::TensorWise, scale_b.narrow(1, 0, 1)};
  } else {
    of_a = {ScalingType::RowWise, scales_of_rows(a, scale_a)};
    of_b = {ScalingType::RowWise, scales_of_rows(b, scale_b).reshape({1, b.size(0)})};
  }
  require_support(b, dtype, of_a.type);
  constexpr auto kNoSwizzle = static_cast<std::int64_t>(at::blas::SwizzleType::NO_SWIZZLE);
  at::_scaled_mm_v2_out(result, a, b.t(), {of_a.scales}, {static_cast<std::int64_t>(of_a.type)}, {kNoSwizzle},
                        {of_b.scales}, {static_cast<std::int64_t>(of_b.type)}, {kNoSwizzle}, {}, dtype, {},
                        fast_accumulation && !of_pieces);
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("quantize_float8", &quantize_float8_cuda);
  m.impl("quantize_float8_runs", &quantize_float8_runs_cuda);
  m.impl("float8_mm", &float8_mm_cuda);
}

}  // namespace rondo

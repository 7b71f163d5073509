// grouped_mm on CUDA: LibTorch's kernel for Hopper's tensor cores if it supports the operands, else
// Rondo's kernel. For other operands LibTorch reads the ends on the host, so it is not called for
// them.
#include "ops/grouped_mm/grouped_mm_cuda.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/_grouped_mm.h>
#include <torch/library.h>

#include "ops/grouped_mm/grouped_mm.h"
#include "ops/kernel/launch.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

// elements of bf16 in 16 bytes, the size of its loads and stores
constexpr std::int64_t kAligned = 8;

// Whether rows, or columns, are contiguous and begin at multiples of 16 bytes.
bool lines_up(const Tensor& x, std::int64_t dense, std::int64_t strided) {
  return x.stride(dense) == 1 && x.stride(strided) % kAligned == 0 &&
         x.stride(strided) >= std::max<std::int64_t>(x.size(dense), 1) &&
         reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

bool has_tensor_core_kernel(const Tensor& a, const Tensor& b, std::int64_t experts) {
  const int major = at::cuda::getDeviceProperties(a.device().index())->major;
  if (major != 9 && major != 10) return false;
  if (a.scalar_type() != at::kBFloat16 || b.scalar_type() != at::kBFloat16) return false;
  if (experts >= 1024 || b.size(b.dim() - 1) % kAligned != 0) return false;
  // A run may begin anywhere along its dimension, so its rows must be contiguous in memory.
  if (b.dim() == 2) return lines_up(a, 0, 1) && lines_up(b, 1, 0);
  return lines_up(a, 1, 0) && (lines_up(b, 1, 2) || lines_up(b, 2, 1)) && b.stride(0) % kAligned == 0;
}

cuda::Matrix matrix(const Tensor& x) {
  if (x.dim() == 2) return {x.const_data_ptr(), x.stride(0), x.stride(1)};
  return {x.const_data_ptr(), x.stride(1), x.stride(2), x.stride(0)};
}

Tensor by_rows(const Tensor& a, const Tensor& b, const Tensor& ends) {
  const cuda::Launch launch(a, "grouped_mm");
  const std::int64_t rows = a.size(0), columns = b.size(2), experts = ends.numel();
  const auto* const end = ends.const_data_ptr<std::int32_t>();
  Tensor result;
  if (rows > 0 && has_tensor_core_kernel(a, b, experts)) {
    result = at::_grouped_mm(a, b, ends);
    cuda::clear_behind_last(result.mutable_data_ptr(), end, experts, rows, columns * result.element_size(),
                            launch.stream());
  } else {
    result = grouped_mm_result(a, b, ends);
    if (result.numel() == 0) return result;
    cuda::grouped_by_rows(launch.element(a), matrix(a), matrix(b), end, result.mutable_data_ptr(), rows,
                          a.size(1), columns, experts, launch.stream());
  }
  launch.check();
  return result;
}

Tensor by_inner(const Tensor& a, const Tensor& b, const Tensor& ends) {
  const cuda::Launch launch(a, "grouped_mm");
  const std::int64_t rows = a.size(0), columns = b.size(1), experts = ends.numel();
  const auto* const end = ends.const_data_ptr<std::int32_t>();
  Tensor result;
  if (b.size(0) > 0 && has_tensor_core_kernel(a, b, experts)) {
    result = at::_grouped_mm(a, b, ends);
    // An empty product is zero; LibTorch does not promise that its kernel writes it.
    cuda::clear_empty(result.mutable_data_ptr(), end, experts, rows * columns * result.element_size(),
                      launch.stream());
  } else {
    result = grouped_mm_result(a, b, ends);
    if (result.numel() == 0) return result;
    cuda::grouped_by_inner(launch.element(a), matrix(a), matrix(b), end, result.mutable_data_ptr(), rows,
                           b.size(0), columns, experts, launch.stream());
  }
  launch.check();
  return result;
}

Tensor grouped_mm_cuda(const Tensor& a, const Tensor& b, const Tensor& ends_E) {
  RONDO_ASSERT(a.scalar_type() == b.scalar_type(), "grouped_mm: a and b must have one dtype");
  RONDO_ASSERT(b.dim() == 2 || b.size(0) == ends_E.numel(), "grouped_mm: b must have one matrix per run");
  const Tensor ends = ends_E.contiguous();
  return b.dim() == 3 ? by_rows(a, b, ends) : by_inner(a, b, ends);
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) { m.impl("grouped_mm", &grouped_mm_cuda); }

}  // namespace rondo

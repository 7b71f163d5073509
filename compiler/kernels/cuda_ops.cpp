// The CUDA side of the fused ops of this folder: checks, results, the current stream. The kernels are in the .cu files.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

#include "compiler/kernels/rms_norm.h"
#include "compiler/kernels/rms_norm_cuda.h"
#include "compiler/kernels/rope_cuda.h"
#include "compiler/kernels/swiglu_cuda.h"
#include "parallel/error.h"

namespace rondo {
namespace {

using at::Tensor;
using TwoTensors = std::tuple<Tensor, Tensor>;

cudaStream_t stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

bool is_bf16(const Tensor& tensor) {
  RONDO_ASSERT(tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kFloat,
               "fused kernels are for float32 and bfloat16");
  return tensor.scalar_type() == at::kBFloat16;
}

// [..., D] as [N, D] with neighbours beside each other; rows may lie apart.
Tensor rows_of(const Tensor& x) {
  if (x.dim() == 2 && x.stride(1) == 1) return x;
  return x.contiguous().view({-1, x.size(-1)});
}

// `x` are rows, and weight is contiguous.
cuda::RmsNormRows rms_norm_rows(const Tensor& x, const Tensor& weight) {
  RONDO_ASSERT(x.size(1) == weight.numel() && x.size(1) <= rms_norm::kWidestRow,
               "rms_norm has a weight a column");
  return {x.size(0),
          x.size(1),
          is_bf16(x),
          is_bf16(weight),
          x.const_data_ptr(),
          x.stride(0),
          weight.const_data_ptr()};
}

TwoTensors rms_norm_cuda(const Tensor& x_in, const Tensor& weight_in, double eps) {
  const Tensor x = rows_of(x_in), weight = weight_in.contiguous();
  std::vector<std::int64_t> sizes = x_in.sizes().vec();
  sizes.back() = 1;
  const at::ScalarType wider = c10::promoteTypes(x.scalar_type(), weight.scalar_type());
  const Tensor y = at::empty(x_in.sizes(), x.options().dtype(wider));
  const Tensor inverse_rms = at::empty(sizes, x.options().dtype(at::kFloat));
  if (x.numel() > 0)
    C10_CUDA_CHECK(cuda::rms_norm(rms_norm_rows(x, weight), static_cast<float>(eps), y.mutable_data_ptr(),
                                  inverse_rms.mutable_data_ptr<float>(), stream()));
  return {y, inverse_rms};
}

TwoTensors rms_norm_backward_cuda(const Tensor& grad_in, const Tensor& x_in, const Tensor& weight_in,
                                  const Tensor& inverse_in) {
  const Tensor grad = rows_of(grad_in), x = rows_of(x_in);
  const Tensor weight = weight_in.contiguous(), inverse_rms = inverse_in.contiguous();
  const Tensor grad_x = at::empty(x_in.sizes(), x.options());
  const auto f32 = x.options().dtype(at::kFloat);
  if (x.numel() == 0) return {grad_x, at::zeros(weight.sizes(), f32)};
  const Tensor grad_weight = at::empty(weight.sizes(), f32);
  const Tensor parts = at::empty({cuda::rms_norm_parts(x.size(0)), x.size(1)}, f32);
  C10_CUDA_CHECK(cuda::rms_norm_backward(rms_norm_rows(x, weight), grad.const_data_ptr(), grad.stride(0),
                                         inverse_rms.const_data_ptr<float>(), grad_x.mutable_data_ptr(),
                                         parts.mutable_data_ptr<float>(),
                                         grad_weight.mutable_data_ptr<float>(), stream()));
  return {grad_x, grad_weight};
}

Tensor swiglu_cuda(const Tensor& gate_in, const Tensor& up_in) {
  const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
  const Tensor y = at::empty(gate.sizes(), gate.options());
  if (y.numel() > 0)
    C10_CUDA_CHECK(cuda::swiglu(is_bf16(gate), gate.const_data_ptr(), up.const_data_ptr(),
                                y.mutable_data_ptr(), y.numel(), stream()));
  return y;
}

TwoTensors swiglu_backward_cuda(const Tensor& grad_in, const Tensor& gate_in, const Tensor& up_in) {
  const Tensor grad = grad_in.contiguous(), gate = gate_in.contiguous(), up = up_in.contiguous();
  const Tensor grad_gate = at::empty(gate.sizes(), gate.options());
  const Tensor grad_up = at::empty(gate.sizes(), gate.options());
  if (gate.numel() > 0)
    C10_CUDA_CHECK(cuda::swiglu_backward(is_bf16(gate), grad.const_data_ptr(), gate.const_data_ptr(),
                                         up.const_data_ptr(), grad_gate.mutable_data_ptr(),
                                         grad_up.mutable_data_ptr(), gate.numel(), stream()));
  return {grad_gate, grad_up};
}

Tensor rope_cuda(const Tensor& x_in, const Tensor& cos_in, const Tensor& sin_in, bool interleaved,
                 bool inverse) {
  const Tensor x = x_in.stride(3) == 1 ? x_in : x_in.contiguous();
  const Tensor cos = cos_in.contiguous(), sin = sin_in.contiguous();
  const Tensor y = at::empty(x.sizes(), x.options());
  if (y.numel() == 0) return y;
  RONDO_ASSERT(cos.size(3) == x.size(3) / 2 && cos.size(1) == x.size(1) && cos.sizes() == sin.sizes(),
               "rope has an angle for each pair of each token");
  const cuda::RopeHeads heads{x.size(0),   x.size(1),   x.size(2),  x.size(3),       x.stride(0),
                              x.stride(1), x.stride(2), is_bf16(x), cos.size(0) == 1};
  C10_CUDA_CHECK(cuda::rope(heads, x.const_data_ptr(), cos.const_data_ptr<float>(),
                            sin.const_data_ptr<float>(), interleaved, inverse, y.mutable_data_ptr(),
                            stream()));
  return y;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("rms_norm", &rms_norm_cuda);
  m.impl("rms_norm_backward", &rms_norm_backward_cuda);
  m.impl("swiglu", &swiglu_cuda);
  m.impl("swiglu_backward", &swiglu_backward_cuda);
  m.impl("rope", &rope_cuda);
}

}  // namespace rondo

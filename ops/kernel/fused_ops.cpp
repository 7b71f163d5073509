#include "ops/kernel/fused_ops.h"

#include <ATen/ops/empty.h>

#include <vector>

#include "ops/kernel/check_operand.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

at::ScalarType dtype_of_y(const Tensor& x, const Tensor& weight) {
  return c10::promoteTypes(x.scalar_type(), weight.scalar_type());
}

void check_norm(const char* op, const Tensor& x, const Tensor& weight) {
  check_f32_or_bf16(op, "x", x);
  check_f32_or_bf16(op, "weight", weight);
  RONDO_ASSERT(x.dim() > 0 && x.size(-1) > 0, std::string(op) + ": x has rows of at least one column");
  check_operand(op, "weight", weight, {x.size(-1)}, weight.scalar_type());
}

std::vector<std::int64_t> sizes_of_inverse(const Tensor& x) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = 1;
  return sizes;
}

}  // namespace

TwoTensors rms_norm_results(const Tensor& x, const Tensor& weight) {
  check_norm("rms_norm", x, weight);
  return {at::empty(x.sizes(), x.options().dtype(dtype_of_y(x, weight))),
          at::empty(sizes_of_inverse(x), x.options().dtype(at::kFloat))};
}

TwoTensors rms_norm_gradients(const Tensor& grad, const Tensor& x, const Tensor& weight,
                              const Tensor& inverse_rms) {
  constexpr const char* kOp = "rms_norm_backward";
  check_norm(kOp, x, weight);
  check_operand(kOp, "grad", grad, x.sizes(), dtype_of_y(x, weight));
  check_operand(kOp, "inverse_rms", inverse_rms, sizes_of_inverse(x), at::kFloat);
  return {at::empty(x.sizes(), x.options()), at::empty(weight.sizes(), x.options().dtype(at::kFloat))};
}

Tensor rows_of(const Tensor& x) {
  if (x.dim() == 2 && x.stride(1) == 1) return x;
  return x.contiguous().view({-1, x.size(-1)});
}

Tensor swiglu_result(const Tensor& gate, const Tensor& up) {
  check_f32_or_bf16("swiglu", "gate", gate);
  check_operand("swiglu", "up", up, gate.sizes(), gate.scalar_type());
  return at::empty(gate.sizes(), gate.options());
}

TwoTensors swiglu_gradients(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  constexpr const char* kOp = "swiglu_backward";
  check_f32_or_bf16(kOp, "gate", gate);
  check_operand(kOp, "up", up, gate.sizes(), gate.scalar_type());
  check_operand(kOp, "grad", grad, gate.sizes(), gate.scalar_type());
  return {at::empty(gate.sizes(), gate.options()), at::empty(gate.sizes(), gate.options())};
}

Tensor rope_result(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  check_f32_or_bf16("rope", "x", x);
  RONDO_ASSERT(x.dim() == 4 && x.size(3) % 2 == 0, "rope: x is [B, T, H, D], and D is even");
  const std::int64_t tables = cos.dim() == 4 && cos.size(0) == 1 ? 1 : x.size(0);
  check_operand("rope", "cos", cos, {tables, x.size(1), 1, x.size(3) / 2}, at::kFloat);
  check_operand("rope", "sin", sin, cos.sizes(), at::kFloat);
  return at::empty(x.sizes(), x.options());
}

}  // namespace rondo

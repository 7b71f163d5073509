// Compares one op on a device with its kernel on the CPU.
//
// Inputs are drawn in fp64 and rounded to the case's type. The reference is the CPU kernel on the
// rounded inputs in fp64, or in fp32 if it has no fp64. An error is the largest difference over all
// elements of a result, divided by the largest element of the reference. `cpu_error` is that of the
// CPU kernel in the case's own type. Each case runs twice; if the op promises it, the bits must be
// the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/cuda/checks.h"
#include "tests/ops/call_op.h"

namespace rondo {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Place {
  c10::Device device;
  at::ScalarType type;  // of floating-point inputs
};

// An input of a case: drawn once, converted to the required device and type.
class Inputs {
 public:
  explicit Inputs(at::ScalarType rounded_to);

  Tensor normal(at::IntArrayRef sizes) const;
  // Input of another precision than the case's, such as scores in fp32.
  Tensor uniform_fp32(at::IntArrayRef sizes) const;

 private:
  at::ScalarType type_;
};

inline Tensor at_place(const Tensor& x, const Place& place) { return x.to(place.device, place.type); }
// Moves an input that stays in fp32 for bf16: scores, tables, sums.
inline Tensor wide_at_place(const Tensor& x, const Place& place) {
  return x.to(place.device, place.type == at::kBFloat16 ? at::kFloat : place.type);
}

struct Case {
  std::string name, op;
  at::ScalarType type;
  at::ScalarType reference;  // fp64, or fp32
  double tolerance;
  bool same_bits = true;  // whether two runs must give the same bits
  std::function<Tensors(const Place&)> run = {};
};

void check(Checks& checks, c10::Device device, const Case& c);

inline const char* in_words(at::ScalarType type) {
  return type == at::kBFloat16 ? "bf16" : type == at::kFloat ? "fp32" : "fp64";
}

// Returns the rounding error of results and of intermediate sums.
inline double rounding(at::ScalarType type) {
  return type == at::kBFloat16 ? 1.0 / 256 : type == at::kFloat ? 1.0 / (1 << 23) : 1e-15;
}

void check_attention(Checks& checks, c10::Device device);
void check_experts(Checks& checks, c10::Device device);
void check_float8(Checks& checks, c10::Device device);
void check_matmul(Checks& checks, c10::Device device);
void check_optimizers(Checks& checks, c10::Device device);
void time_kernels(Checks& checks, c10::Device device);

}  // namespace rondo

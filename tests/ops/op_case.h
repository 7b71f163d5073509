// Shared by tests of fused ops: checks an op on the CPU against its shape rule and against a
// formula in f64.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/ops/call_op.h"

namespace rondo {

// Calls the op and checks that its shape rule predicts the kernel's results.
std::vector<at::Tensor> checked_call(const std::string& name, const std::vector<Argument>& arguments);

// Checks that both kernel and shape rule throw Error with these words.
void check_refused(const std::string& words, const std::string& name, const std::vector<Argument>& arguments);

// Returns the tensor in f64, with gradients.
at::Tensor wide(const at::Tensor& tensor);

// Generates f32, bf16 and f64 (a Catch generator).
at::ScalarType any_dtype();

// Returns random rows: "contiguous", "apart" (strided, at odd addresses), "transposed" or "deep"
// (three dimensions).
at::Tensor rows(const std::string& layout, std::int64_t count, std::int64_t width, at::ScalarType dtype);

// Tolerances of one final rounding, and of sums in f32, or f64 for f64.
void check_close(const at::Tensor& made, const at::Tensor& expected);

// Checks that results have the same bits with one thread and with two.
void check_same_with_threads(const std::function<std::vector<at::Tensor>()>& run);

}  // namespace rondo

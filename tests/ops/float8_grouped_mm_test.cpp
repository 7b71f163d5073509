// Products of experts in float8 on the CPU: quantized operands, emulated products and grouped
// linear layers, against products of the dequantized operands and of full precision.
#include "ops/grouped_mm/float8_grouped_mm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>

#include "ops/float8/float8_linear.h"
#include "ops/grouped_mm/grouped_linear.h"
#include "ops/grouped_mm/grouped_mm.h"
#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kE4m3 = static_cast<std::int64_t>(at::kFloat8_e4m3fn);
constexpr std::int64_t kBlock = kFloat8Block;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor ints(const std::vector<std::int32_t>& values) { return at::tensor(values, at::kInt); }

Tensor dequantized(const Tensors& quantized) {
  return quantized[0].to(at::kDouble) * quantized[1].to(at::kDouble);
}

Tensor dequantized_pieces(const Tensors& quantized) {
  return dequantized({quantized[0], quantized[1].repeat_interleave(kMxBlock, 1)});
}

Tensors quantized_experts(const Tensor& b) {
  return call("quantize_float8", b, std::int64_t{1}, std::int64_t{0}, kE4m3, true);
}

// The rounding of two numbers to 3 bits of mantissa changes a product by less than this share.
constexpr double kShare = 1.0 / 16 + 1.0 / 16 + 1.0 / 256;

// Checks that a grouped product of float8 differs from the exact one by the rounding of its
// operands and of its sums. The constant bounds operands that round as subnormal numbers.
void check_within_rounding(const Tensor& result, const Tensor& rows, const Tensor& b, const Tensor& ends) {
  const Tensor x = rows.to(at::kDouble), w = b.to(at::kDouble).transpose(1, 2);
  const Tensor exact = grouped_mm(x, w, ends), magnitudes = grouped_mm(at::abs(x), at::abs(w), ends);
  const Tensor error = at::abs(result.to(at::kDouble) - exact);
  CHECK((error <= kShare * magnitudes + 1e-2).all().item<bool>());
  CHECK(error.max().item<double>() > 0);
}

}  // namespace

TEST_CASE("a stack of matrices has the values and scales of each matrix, transposed or not") {
  const at::ScalarType dtype = any_dtype();
  const bool transposed = GENERATE(false, true);
  Tensor x = (at::randn({3, 24, 40}) * at::randn({3, 24, 1}).exp()).to(dtype);
  if (transposed) x = x.transpose(1, 2);
  const Tensors result = checked_call("quantize_float8", {x, 1, 0, kE4m3, true});
  for (std::int64_t e = 0; e < 3; ++e) {
    const Tensors one = call("quantize_float8", x[e], std::int64_t{1}, std::int64_t{0}, kE4m3, true);
    CHECK(at::equal(result[0][e].view(at::kByte), one[0].view(at::kByte)));
    CHECK(at::equal(result[1][e], one[1]));
  }
  check_refused("x must be a matrix with dense rows", "quantize_float8", {x, 0, 0, kE4m3, true});
}

TEST_CASE("a stack of matrices in blocks has the values and scales of each matrix, transposed or not") {
  const auto [rows, columns] = GENERATE(table<std::int64_t, std::int64_t>({{128, 128}, {1, 32}}));
  const bool transposed = GENERATE(false, true);
  Tensor x = at::randn({2, 128, 256}) * at::randn({2, 128, 256}).exp();
  if (transposed) x = x.transpose(1, 2);
  const Tensors result = checked_call("quantize_float8", {x, rows, columns, kE4m3, true});
  for (std::int64_t e = 0; e < 2; ++e) {
    const Tensors one = call("quantize_float8", x[e], rows, columns, kE4m3, true);
    CHECK(at::equal(result[0][e].view(at::kByte), one[0].view(at::kByte)));
    CHECK(at::equal(result[1][e], one[1]));
  }
  check_refused("multiples of its blocks", "quantize_float8",
                {at::randn({2, 64, 128}), 128, 128, kE4m3, true});
}

TEST_CASE("rows of runs are quantized as rows, and those after the last end are zeros, whatever they hold") {
  const at::ScalarType dtype = any_dtype();
  const Tensor ends = GENERATE(as<Tensor>(), ints({3, 3, 9}), ints({0, 12, 12}), ints({0, 0, 0}));
  const std::int64_t filled = ends[2].item<std::int32_t>();
  Tensor x = at::randn({12, 32}).to(dtype);
  const Tensors whole = call("quantize_float8", x, std::int64_t{1}, std::int64_t{0}, kE4m3, true);
  x.narrow(0, filled, 12 - filled).fill_(kNan);
  const Tensors result = checked_call("quantize_float8_runs", {x, ends, 0});
  CHECK(at::equal(result[0].view(at::kByte).narrow(0, 0, filled),
                  whole[0].view(at::kByte).narrow(0, 0, filled)));
  CHECK(at::equal(result[1].narrow(0, 0, filled), whole[1].narrow(0, 0, filled)));
  CHECK(result[0].view(at::kByte).narrow(0, filled, 12 - filled).eq(0).all().item<bool>());
  CHECK(result[1].narrow(0, filled, 12 - filled).eq(1).all().item<bool>());
}

TEST_CASE("rows of runs in pieces have the values and scales of rows, and those after the last are zeros") {
  const std::int64_t piece = GENERATE(32, 128);
  const Tensor ends = ints({3, 3, 9});
  Tensor x = at::randn({12, 256}) * at::randn({12, 256}).exp();
  const Tensors whole = call("quantize_float8", x, std::int64_t{1}, piece, kE4m3, true);
  x.narrow(0, 9, 3).fill_(kNan);
  const Tensors result = checked_call("quantize_float8_runs", {x, ends, piece});
  CHECK(at::equal(result[0].view(at::kByte).narrow(0, 0, 9), whole[0].view(at::kByte).narrow(0, 0, 9)));
  CHECK(at::equal(result[1].narrow(0, 0, 9), whole[1].narrow(0, 0, 9)));
  CHECK(result[0].view(at::kByte).narrow(0, 9, 3).eq(0).all().item<bool>());
  CHECK(result[1].narrow(0, 9, 3).eq(1).all().item<bool>());
  check_refused("block_columns must be 0, or 32 or 128", "quantize_float8_runs", {x, ends, 64});
}

TEST_CASE(
    "padded runs begin at multiples of 128, or 32, and end where the next begins, with zeros after their "
    "rows") {
  const at::ScalarType dtype = any_dtype();
  const std::int64_t multiple = GENERATE(32, 128);
  const Tensor ends =
      GENERATE(as<Tensor>(), ints({130, 130, 131, 387}), ints({0, 0, 256, 256}), ints({0, 0, 0, 0}));
  const auto end_of = [](const Tensor& of, std::int64_t e) {
    return std::int64_t{of[e].item<std::int32_t>()};
  };
  Tensor x = at::randn({400, 8}).to(dtype);
  x.narrow(0, end_of(ends, 3), 400 - end_of(ends, 3)).fill_(kNan);
  const Tensors result = checked_call("pad_runs", {x, ends, multiple});
  CHECK(result[0].size(0) == multiple * (400 / multiple + 4));
  std::int64_t begin = 0, padded_begin = 0;
  for (std::int64_t e = 0; e < 4; ++e) {
    const std::int64_t end = end_of(ends, e), padded_end = end_of(result[1], e), rows = end - begin;
    CHECK(padded_end % multiple == 0);
    CHECK(padded_end - padded_begin >= rows);
    const Tensor run = result[0].narrow(0, padded_begin, padded_end - padded_begin);
    CHECK(at::equal(run.narrow(0, 0, rows), x.narrow(0, begin, rows)));
    CHECK(run.narrow(0, rows, run.size(0) - rows).eq(0).all().item<bool>());
    begin = end;
    padded_begin = padded_end;
  }
  CHECK(result[0].narrow(0, padded_begin, result[0].size(0) - padded_begin).eq(0).all().item<bool>());
  CHECK(checked_call("pad_runs", {at::randn({0, 8}), ints({0, 0, 0, 0}), multiple})[0]
            .eq(0)
            .all()
            .item<bool>());
  check_refused("multiple must be positive", "pad_runs", {x, ends, 0});
}

TEST_CASE("columns of runs have the values and scales of rows of each run's transpose") {
  const at::ScalarType dtype = any_dtype();
  const Tensor ends = ints({32, 32, 160});
  Tensor x = (at::randn({192, 48}) * at::randn({192, 48}).exp()).to(dtype);
  x.narrow(0, 160, 32).zero_();
  x[40][5] = kNan;
  const Tensors result = checked_call("quantize_float8_columns", {x, ends});
  for (const auto& [begin, rows] : {std::pair(0, 32), std::pair(32, 128), std::pair(160, 32)}) {
    const Tensors one =
        call("quantize_float8", x.narrow(0, begin, rows).t(), std::int64_t{1}, std::int64_t{0}, kE4m3, true);
    CHECK(at::equal(result[0].view(at::kByte).narrow(1, begin, rows), one[0].view(at::kByte)));
    CHECK(at::equal(result[1].narrow(1, begin / 32, rows / 32), one[1].expand({48, rows / 32})));
  }
  const auto [values, scales] = quantized_columns(x, ends);  // by ops of LibTorch, as on GPUs
  CHECK(at::equal(result[0].view(at::kByte), values.view(at::kByte)));
  CHECK(at::equal(result[1], scales));
  x[40][5] = std::numeric_limits<double>::infinity();
  const Tensors lost = call("quantize_float8_columns", x, ends);
  CHECK_FALSE(at::isfinite(dequantized_pieces(lost)[5].narrow(0, 32, 128)).any().item<bool>());
  CHECK(at::isfinite(dequantized_pieces(lost)[5].narrow(0, 0, 32)).all().item<bool>());
  check_refused("rows are a multiple of 32", "quantize_float8_columns", {at::randn({40, 8}), ends});
  check_refused("ends must be a list of int32", "quantize_float8_columns", {x, ends.to(at::kLong)});
}

TEST_CASE("an emulated grouped product is the product of the dequantized operands, with empty runs") {
  const at::ScalarType dtype = any_dtype();
  const Tensor ends = GENERATE(as<Tensor>(), ints({3, 3, 9}), ints({0, 12, 12}), ints({0, 0, 0}));
  const Tensors a = call("quantize_float8_runs", at::randn({12, 32}), ends, std::int64_t{0}),
                b = quantized_experts(at::randn({3, 16, 32}));
  const Tensor result = checked_call(
      "float8_grouped_mm", {a[0], a[1], b[0], b[1], ends, static_cast<std::int64_t>(dtype), true, true})[0];
  CHECK(result.scalar_type() == dtype);
  check_close(result, grouped_mm(dequantized(a), dequantized(b).transpose(1, 2), ends));
  const std::int64_t filled = ends[2].item<std::int32_t>();
  CHECK(result.narrow(0, filled, 12 - filled).eq(0).all().item<bool>());
}

TEST_CASE("a grouped product of no rows has none") {
  const Tensor ends = ints({0, 0, 0});
  const Tensors a = checked_call("quantize_float8_runs", {at::randn({0, 32}), ends, 0}),
                b = quantized_experts(at::randn({3, 16, 32}));
  const Tensor result =
      checked_call("float8_grouped_mm",
                   {a[0], a[1], b[0], b[1], ends, static_cast<std::int64_t>(at::kFloat), true, true})[0];
  CHECK(result.sizes() == at::IntArrayRef{0, 16});
}

TEST_CASE("experts in float8 differ from full precision by the rounding of operands, forward and backward") {
  const bool inputs_first = GENERATE(false, true);
  const Tensor ends = ints({20, 20, 53, 90});
  const Tensor weight = at::randn(inputs_first ? at::IntArrayRef{4, 64, 48} : at::IntArrayRef{4, 48, 64}),
               of_outputs = inputs_first ? weight.transpose(1, 2) : weight;
  Tensor x = at::randn({96, 64}), gradient = at::randn({96, 48});
  const Tensor leaf = x.clone().requires_grad_(), weights = weight.clone().requires_grad_(),
               plain = weight.clone().requires_grad_();
  const Tensor y = grouped_linear(leaf, weights, ends, inputs_first,
                                  Float8Options{Float8Recipe::rowwise_with_gw_hp, /*emulate=*/true});
  y.backward(gradient);
  check_within_rounding(y.detach(), x, of_outputs, ends);
  check_within_rounding(leaf.grad(), gradient, of_outputs.transpose(1, 2), ends);
  // The gradient of the weight is the product of the operands as they are.
  grouped_linear(x, plain, ends, inputs_first).backward(gradient);
  CHECK(at::equal(weights.grad(), plain.grad()));
}

TEST_CASE("the gradient of an expert's weight by rows is that of a linear layer over its rows") {
  const bool inputs_first = GENERATE(false, true);
  const Float8Options rowwise{Float8Recipe::rowwise, /*emulate=*/true};
  const Tensor ends = ints({37, 37, 190}), gradient = at::randn({200, 48}).to(at::kDouble),
               x = at::randn({200, 64}).to(at::kDouble);
  const Tensor result = grouped_grad_weight(gradient, x, ends, inputs_first, rowwise);
  for (const auto& [e, begin, rows] : {std::tuple(0, 0, 37), std::tuple(2, 37, 153)}) {
    const Tensor expected =
        linear_grad_weight(gradient.narrow(0, begin, rows), x.narrow(0, begin, rows), rowwise);
    check_close(inputs_first ? result[e].t() : result[e], expected);
  }
  CHECK(result[1].eq(0).all().item<bool>());
}

// Runs of whole blocks have no padding within a block.
TEST_CASE("experts in blocks equal linear layers of each run in blocks, forward and backward") {
  const bool inputs_first = GENERATE(false, true);
  const Float8Options options{GENERATE(Float8Recipe::blockwise, Float8Recipe::mxfp8), /*emulate=*/true};
  const Tensor ends = ints({128, 128, 384}), weight = at::randn({3, 128, 256}).to(at::kDouble);
  const Tensor x = at::randn({384, 256}).to(at::kDouble), gradient = at::randn({384, 128}).to(at::kDouble);
  const Tensor leaf = x.clone().requires_grad_(),
               weights = (inputs_first ? weight.transpose(1, 2) : weight).clone().requires_grad_();
  const Tensor y = grouped_linear(leaf, weights, ends, inputs_first, options);
  y.backward(gradient);
  const Tensor of_weight = inputs_first ? weights.grad().transpose(1, 2) : weights.grad();
  for (const auto& [e, begin, rows] : {std::tuple(0, 0, 128), std::tuple(2, 128, 256)}) {
    const auto run = [begin = begin, rows = rows](const Tensor& t) {
      return t.detach().narrow(0, begin, rows);
    };
    check_close(run(y), linear_output(run(x), weight[e], options));
    check_close(run(leaf.grad()), linear_grad_input(run(gradient), weight[e], options));
    check_close(of_weight[e], linear_grad_weight(run(gradient), run(x), options));
  }
  CHECK(of_weight[1].eq(0).all().item<bool>());
}

TEST_CASE("the gradient of an expert's weight in blocks is one of its rows and zeros to whole blocks") {
  const Float8Options options{GENERATE(Float8Recipe::blockwise, Float8Recipe::mxfp8), /*emulate=*/true};
  const Tensor ends = ints({37, 187}), gradient = at::randn({200, 128}).to(at::kDouble),
               x = at::randn({200, 256}).to(at::kDouble);
  const Tensor result = grouped_grad_weight(gradient, x, ends, /*inputs_first=*/false, options);
  const auto padded = [&](const Tensor& t, std::int64_t begin, std::int64_t rows) {
    Tensor run = at::zeros({256, t.size(1)}, t.options());
    run.narrow(0, 0, rows).copy_(t.narrow(0, begin, rows));
    return run;
  };
  check_close(result[0], linear_grad_weight(padded(gradient, 0, 37), padded(x, 0, 37), options));
  check_close(result[1], linear_grad_weight(padded(gradient, 37, 150), padded(x, 37, 150), options));
}

TEST_CASE("rows after the last end, whatever they hold, change no result of experts in float8") {
  const auto [recipe, size] =
      GENERATE(table<Float8Recipe, std::int64_t>({{Float8Recipe::rowwise_with_gw_hp, 16},
                                                  {Float8Recipe::rowwise, 16},
                                                  {Float8Recipe::blockwise, 128},
                                                  {Float8Recipe::mxfp8, 32}}));
  const Float8Options options{recipe, /*emulate=*/true};
  const Tensor ends = ints({5, 5, 11}), weight = at::randn({3, 2 * size, size});
  Tensor x = at::randn({16, size}), gradient = at::randn({16, 2 * size});
  const auto results = [&] {
    return Tensors{grouped_output(x, weight, ends, false, options),
                   grouped_grad_input(gradient, weight, ends, false, options),
                   grouped_grad_weight(gradient, x, ends, false, options)};
  };
  const Tensors before = results();
  x.narrow(0, 11, 5).fill_(kNan);
  gradient.narrow(0, 11, 5).fill_(kNan);
  const Tensors after = results();
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(at::isfinite(after[i]).all().item<bool>());
    CHECK(at::equal(before[i], after[i]));
  }
}

TEST_CASE("float8_grouped_mm refuses unsupported operands and names them") {
  const Tensor ends = ints({2, 4, 8});
  const Tensors a = call("quantize_float8_runs", at::randn({8, 32}), ends, std::int64_t{0}),
                b = quantized_experts(at::randn({3, 16, 32}));
  const auto product = [&](const Tensors& left, const Tensors& right, const Tensor& runs) {
    return std::vector<Argument>{
        left[0], left[1], right[0], right[1], runs, static_cast<std::int64_t>(at::kFloat), false, true};
  };
  check_refused("a must be contiguous, of 2 dimensions and float8_e4m3fn", "float8_grouped_mm",
                product({a[0].to(at::kFloat), a[1]}, b, ends));
  check_refused("b must have a float32 scale per row, per 1 x 32 or per block of 128", "float8_grouped_mm",
                product(a, {b[0], b[1].squeeze(2)}, ends));
  check_refused("b must have one matrix per run", "float8_grouped_mm", product(a, b, ints({4, 8})));
  check_refused("rows of a and b must have the same length", "float8_grouped_mm",
                product(a, quantized_experts(at::randn({3, 16, 48})), ends));
  check_refused("ends must be a list of int32", "quantize_float8_runs",
                {at::randn({8, 32}), ends.to(at::kLong), 0});
  CHECK_THROWS_WITH(call("float8_grouped_mm", a[0], a[1], b[0], b[1], ends,
                         static_cast<std::int64_t>(at::kFloat), false, false),
                    Catch::Matchers::ContainsSubstring("a CPU has no products of float8"));
}

}  // namespace rondo

// Matrices of float8 and their products on the CPU: rounding against c10's conversions, scales and
// products against their formulas.
#include "ops/float8/float8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>

#include "ops/float8/float8_linear.h"
#include "ops/float8/float8_math.h"
#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kE4m3 = static_cast<std::int64_t>(at::kFloat8_e4m3fn),
                       kE5m2 = static_cast<std::int64_t>(at::kFloat8_e5m2);

template <float8::Format format, class Torchs>
void check_rounding(float largest) {
  for (std::uint64_t step = 0; step <= 0xffffffff; step += 4999) {
    const auto bits = static_cast<std::uint32_t>(step);
    const auto x = std::bit_cast<float>(bits);
    const std::uint8_t made = float8::rounded<format>(x);
    if (std::isnan(x)) {
      REQUIRE(made == 0x7f);
      continue;
    }
    // c10 gives NaN or infinity beyond the largest number.
    REQUIRE(made == Torchs(std::clamp(x, -largest, largest)).x);
  }
  for (int i = 0; i < 0x7f; ++i) {  // its own numbers, and the middle between each and the next
    const auto number = [](int bits) {
      return static_cast<float>(Torchs(static_cast<std::uint8_t>(bits), Torchs::from_bits()));
    };
    if (!(number(i + 1) <= largest)) break;
    CHECK(float8::rounded<format>(number(i)) == i);
    CHECK(float8::rounded<format>((number(i) + number(i + 1)) / 2) == (i % 2 == 0 ? i : i + 1));
  }
}

Tensor dequantized(const Tensor& values, const Tensor& scales, Float8Block block) {
  const std::int64_t rows = block.rows == 0 ? values.size(0) : block.rows,
                     columns = block.columns == 0 ? values.size(1) : block.columns;
  Tensor wide = values.to(at::kDouble).clone();
  for (std::int64_t i = 0; i < values.size(0) / rows; ++i)
    for (std::int64_t j = 0; j < values.size(1) / columns; ++j)
      wide.narrow(0, i * rows, rows).narrow(1, j * columns, columns) *= scales[i][j].item<double>();
  return wide;
}

// Signal-to-noise ratio of y as an approximation of x, in decibels.
double signal_to_noise(const Tensor& x, const Tensor& y) {
  const Tensor exact = x.to(at::kDouble), error = exact - y.to(at::kDouble);
  return 10 * std::log10((exact * exact).sum().item<double>() / (error * error).sum().item<double>());
}

// The output of mxfp8_values.py: exponents of the scales, and numbers as hexadecimal digits.
constexpr int kMxExponents[] = {7, -52, 97, 10};
constexpr std::string_view kMxValues =
    "80811ccad400881e5bfa019cb266800029ce6a018832e38002a02c72800334ce"
    "74818238e000039a40f48006b2b000810944e10086984ef90012b45400811bca"
    "e2009022628001a4bc6c808031d670019239ec8004a9287a80063cd800838c48"
    "e40004a1427e8009b7c100810a48e700899f52800016ba5700821fd0e2008d19";

constexpr Float8Block kBlocks[] = {{0, 0}, {1, 0}, {1, 128}, {128, 128}};

}  // namespace

TEST_CASE("numbers are rounded to float8 as by c10, and saturate") {
  check_rounding<float8::Format::e4m3, c10::Float8_e4m3fn>(448);
  check_rounding<float8::Format::e5m2, c10::Float8_e5m2>(57344);
}

TEST_CASE("numbers of float8 are widened as by c10") {
  const auto same = [](float made, float expected) {
    return made == expected ? std::signbit(made) == std::signbit(expected)
                            : std::isnan(made) && std::isnan(expected);
  };
  for (int i = 0; i < 256; ++i) {
    const auto bits = static_cast<std::uint8_t>(i);
    using c10::Float8_e4m3fn, c10::Float8_e5m2, float8::Format;
    CHECK(same(float8::widened<Format::e4m3>(bits), Float8_e4m3fn(bits, Float8_e4m3fn::from_bits())));
    CHECK(same(float8::widened<Format::e5m2>(bits), Float8_e5m2(bits, Float8_e5m2::from_bits())));
  }
}

TEST_CASE("a quantized matrix approximates the original, each block fills the range, transposed or not") {
  const at::ScalarType dtype = any_dtype();
  const Float8Block block = GENERATE(from_range(kBlocks));
  const std::int64_t format = GENERATE(kE4m3, kE5m2);
  const bool power_of_two = GENERATE(false, true);
  INFO(block.rows << " x " << block.columns);
  const std::int64_t rows = block.rows == 128 ? 256 : 37;
  // Rows of very different magnitudes.
  const Tensor x = (at::randn({rows, 384}) * at::randn({rows, 1}).exp() * 1e-3).to(dtype);
  const Tensors made = checked_call("quantize_float8", {x, block.rows, block.columns, format, power_of_two});
  const Tensor turned = x.t().contiguous().t();
  const Tensors of_turned =
      checked_call("quantize_float8", {turned, block.rows, block.columns, format, power_of_two});
  CHECK(at::equal(made[0].view(at::kByte), of_turned[0].view(at::kByte)));
  CHECK(at::equal(made[1], of_turned[1]));

  const double largest = format == kE4m3 ? 448 : 57344, ulps = format == kE4m3 ? 16 : 8;
  const std::int64_t block_rows = block.rows == 0 ? rows : block.rows,
                     block_columns = block.columns == 0 ? 384 : block.columns;
  const Tensor back = dequantized(made[0], made[1], block);
  for (std::int64_t i = 0; i < rows / block_rows; ++i)
    for (std::int64_t j = 0; j < 384 / block_columns; ++j) {
      const auto part = [&](const Tensor& t) {
        return t.narrow(0, i * block_rows, block_rows)
            .narrow(1, j * block_columns, block_columns)
            .to(at::kDouble);
      };
      const double scale = made[1][i][j].item<double>();
      const double most = at::abs(part(made[0])).max().item<double>();
      const double of_x = at::abs(part(x)).max().item<double>();
      if (power_of_two) {
        CHECK(std::exp2(std::round(std::log2(scale))) == scale);
        CHECK(of_x / scale <= largest);
        CHECK(of_x / scale > largest / 2);
      } else {
        CHECK(most == largest);
        CHECK(std::abs(scale * largest / of_x - 1) < 1e-6);
      }
      const double step = format == kE4m3 ? 0x1p-9 : 0x1p-16;  // of the smallest numbers
      const Tensor error = at::abs(part(x) - part(back));
      CHECK((error <= at::abs(part(x)) / ulps + step / 2 * scale).all().item<bool>());
    }
}

// The parts of a matrix that ranks gather. Sizes are such that a part has one chunk, or several.
TEST_CASE("parts quantized by the largest magnitude of all have the bits of the whole, transposed or not") {
  const at::ScalarType dtype = any_dtype();
  const std::int64_t format = GENERATE(kE4m3, kE5m2);
  const bool power_of_two = GENERATE(false, true);
  const std::int64_t rows = GENERATE(6, 160);
  const Tensor x = (at::randn({rows, 55}) * at::randn({rows, 1}).exp()).to(dtype);
  const Tensors whole = call("quantize_float8", x, 0, 0, format, power_of_two);
  Tensors values, flat, largest;
  const auto parts = {x.narrow(0, 0, rows / 2), x.narrow(0, rows / 2, rows / 2)};
  for (const Tensor& part : parts) largest.push_back(checked_call("largest_magnitude", {part})[0]);
  const Tensor of_all = at::cat(largest).amax(0, /*keepdim=*/true);
  CHECK(of_all.item<double>() == at::abs(x).max().item<double>());
  for (const Tensor& part : parts) {
    const Tensors quantized = checked_call("quantize_float8_by", {part, of_all, format, power_of_two});
    CHECK(at::equal(quantized[1], whole[1]));
    values.push_back(quantized[0].view(at::kByte));
    flat.push_back(call("quantize_float8_by", part.flatten(), of_all, format, power_of_two)[0]);
    CHECK(at::equal(flat.back().view(at::kByte), values.back().flatten()));
  }
  const Tensor gathered = at::cat(values).view(static_cast<at::ScalarType>(format));
  CHECK(at::equal(gathered.view(at::kByte), whole[0].view(at::kByte)));
  const Tensors transposed = call("quantize_float8", x.t(), 0, 0, format, power_of_two);
  CHECK(at::equal(checked_call("transpose_float8", {gathered})[0].view(at::kByte),
                  transposed[0].view(at::kByte)));
  CHECK(at::equal(transposed[1], whole[1]));
}

TEST_CASE("the largest magnitude of a matrix counts infinities and no nans, as of a scale") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Tensor x = at::randn({64, 128});
  x[3][7] = nan;
  x[5][1] = -100;
  CHECK(call("largest_magnitude", x)[0].item<double>() == 100);
  const Tensors made = call("quantize_float8_by", x, at::full({1}, 100.0f), kE4m3, false);
  CHECK(
      at::equal(made[0].view(at::kByte), call("quantize_float8", x, 0, 0, kE4m3, false)[0].view(at::kByte)));
  x[63][127] = -std::numeric_limits<double>::infinity();
  CHECK(call("largest_magnitude", x)[0].isinf().item<bool>());
  check_refused("x must be contiguous and not empty", "largest_magnitude", {at::zeros({2, 3}).t()});
  check_refused("dtype is Byte", "quantize_float8_by", {x, at::ones({1}), 0, false});
  check_refused("must be a contiguous matrix of float8", "transpose_float8", {x});
}

TEST_CASE("scales of 128 elements have the layout that cuBLASLt reads") {
  const Tensors pieces = checked_call("quantize_float8", {at::randn({5, 384}), 1, 128, kE4m3, true});
  CHECK(pieces[1].sizes() == at::IntArrayRef{5, 3});
  CHECK(pieces[1].strides() == at::IntArrayRef{1, 5});
  const Tensors squares = checked_call("quantize_float8", {at::randn({256, 640}), 128, 128, kE4m3, true});
  CHECK(squares[1].sizes() == at::IntArrayRef{2, 8});
  CHECK(squares[1].is_contiguous());
  CHECK(at::equal(squares[1].narrow(1, 5, 3), at::zeros({2, 3})));
}

TEST_CASE("a nan stays a nan, and an infinity leaves no number in its block") {
  const Float8Block block = GENERATE(from_range(kBlocks));
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Tensor x = at::randn({128, 256});
  x[3][7] = nan;
  Tensors made = call("quantize_float8", x, block.rows, block.columns, kE4m3, true);
  Tensor lost = at::isnan(dequantized(made[0], made[1], block));
  CHECK(lost.sum().item<std::int64_t>() == 1);
  CHECK(lost[3][7].item<bool>());
  x[3][7] = -inf;
  made = call("quantize_float8", x, block.rows, block.columns, kE5m2, false);
  lost = at::isnan(dequantized(made[0], made[1], block));
  CHECK(lost[3][7].item<bool>());
  CHECK(lost[3][8].item<bool>());
  CHECK(lost.sum().item<std::int64_t>() ==
        (block.rows == 0 ? 128 : block.rows) * (block.columns == 0 ? 256 : block.columns));
}

TEST_CASE("a matrix of zeros is quantized to zeros") {
  for (const Float8Block& block : kBlocks) {
    const Tensors made =
        call("quantize_float8", at::zeros({128, 128}), block.rows, block.columns, kE4m3, false);
    CHECK(at::equal(dequantized(made[0], made[1], block), at::zeros({128, 128}, at::kDouble)));
  }
}

TEST_CASE("MXFP8 has the scales and numbers of the specification, transposed or not, and saturates") {
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble);
  const double factors[] = {1, 0x1p-60, 0x1p90, 3};
  Tensor x = at::empty({4, 32}, at::kDouble);
  for (int i = 0; i < 4 * 32; ++i)
    x[i / 32][i % 32] = (i * 37 % 101 - 50) * std::exp2(i * 5 % 23 - 11) * factors[i / 32];
  x[3][5] = 500 * 1024;
  x = x.to(dtype);
  const bool transposed = GENERATE(false, true);
  const Tensors result =
      checked_call("quantize_float8", {transposed ? x.t().contiguous().t() : x, 1, 32, kE4m3, true});
  CHECK(result[1].strides() == at::IntArrayRef{1, 4});
  std::string digits;
  for (std::int64_t row = 0; row < 4; ++row) {
    CHECK(result[1][row][0].item<float>() == std::ldexp(1.0F, kMxExponents[row]));
    for (std::int64_t i = 0; i < 32; ++i)
      digits += fmt::format("{:02x}", result[0].view(at::kByte)[row][i].item<std::uint8_t>());
  }
  CHECK(digits == kMxValues);
}

TEST_CASE("MXFP8 by ops of LibTorch, as on GPUs, has the bits of the CPU's kernel") {
  const at::ScalarType dtype = any_dtype();
  const Tensor x = (at::randn({40, 96}) * at::randn({40, 96}).exp() * 1e-3).to(dtype);
  for (const Tensor& operand : {x, x.t().contiguous().t().narrow(0, 3, 30)}) {
    const Tensors made = call("quantize_float8", operand, 1, 32, kE4m3, true);
    const Float8Matrix expected = quantize_float8_result(operand, 1, 32, at::kFloat8_e4m3fn);
    quantize_mx(operand, expected);
    CHECK(at::equal(made[0].view(at::kByte), std::get<0>(expected).view(at::kByte)));
    CHECK(at::equal(made[1], std::get<1>(expected)));
  }
}

TEST_CASE("a block of MXFP8 with a nan or an infinity has no numbers, and zeros stay zeros") {
  Tensor x = at::zeros({2, 96});
  x[0][40] = std::numeric_limits<double>::quiet_NaN();
  x[1][95] = -std::numeric_limits<double>::infinity();
  const Tensors result = call("quantize_float8", x, 1, 32, kE4m3, true);
  const Tensor back = dequantized(result[0], result[1], {1, 32}), lost = at::isnan(back);
  CHECK(lost[0].narrow(0, 32, 32).all().item<bool>());
  CHECK(lost[1].narrow(0, 64, 32).all().item<bool>());
  CHECK(lost.sum().item<std::int64_t>() == 64);
  CHECK(at::equal(back.masked_fill(lost, 0), at::zeros({2, 96}, at::kDouble)));
}

// So tensor parallelism, sharding of tokens and accumulation change no number of a blockwise
// product.
TEST_CASE("parts of a matrix in blocks of 128 or 32 have the numbers of the whole matrix") {
  const Tensor x = at::randn({256, 512}) * at::randn({256, 512}).exp();
  for (const Float8Block& block : {kBlocks[2], kBlocks[3], Float8Block{1, 32}}) {
    const Tensors whole = call("quantize_float8", x, block.rows, block.columns, kE4m3, true);
    const Tensor part = x.narrow(0, 128, 128).narrow(1, 256, 256);
    const Tensors of_part = call("quantize_float8", part, block.rows, block.columns, kE4m3, true);
    CHECK(at::equal(of_part[0].view(at::kByte),
                    whole[0].view(at::kByte).narrow(0, 128, 128).narrow(1, 256, 256)));
  }
}

TEST_CASE("an emulated product is the product of the dequantized operands") {
  const at::ScalarType dtype = any_dtype();
  const Tensor a = at::randn({48, 256}), b = at::randn({128, 256});
  const auto quantized = [](const Tensor& x, Float8Block block, std::int64_t format) {
    return call("quantize_float8", x, block.rows, block.columns, format, false);
  };
  struct Pair {
    Float8Block a, b;
  };
  for (const auto& [of_a, of_b] : {Pair{{0, 0}, {0, 0}},
                                   {{1, 0}, {1, 0}},
                                   {{1, 0}, {0, 0}},
                                   {{1, 128}, {128, 128}},
                                   {{1, 128}, {1, 128}},
                                   {{1, 32}, {1, 32}}}) {
    const bool is_mx = of_a.columns == 32;
    const Tensors left = quantized(a, of_a, is_mx ? kE4m3 : kE5m2), right = quantized(b, of_b, kE4m3);
    const Tensor made = checked_call("float8_mm", {left[0], left[1], right[0], right[1],
                                                   static_cast<std::int64_t>(dtype), false, true})[0];
    CHECK(made.scalar_type() == dtype);
    check_close(made,
                at::matmul(dequantized(left[0], left[1], of_a), dequantized(right[0], right[1], of_b).t()));
  }
}

TEST_CASE("a linear layer in float8 approximates full precision, forward and backward, by every recipe") {
  using enum Float8Recipe;
  const auto [recipe, decibels] = GENERATE(table<Float8Recipe, double>({{tensorwise, 24},
                                                                        {rowwise, 28},
                                                                        {rowwise_with_gw_hp, 28},
                                                                        {blockwise, 28},
                                                                        {mxfp8, 27},
                                                                        {nvfp4, 14}}));
  INFO(name_of(recipe));
  const Tensor x = at::randn({2, 128, 256}).requires_grad_(), weight = at::randn({384, 256}).requires_grad_();
  const Tensor gradient = at::randn({2, 128, 384});
  const Tensor y = float8_linear(x, weight, {recipe, /*emulate=*/true});
  y.backward(gradient);
  const Tensor flat = x.detach().view({-1, 256}), of_y = gradient.view({-1, 384});
  CHECK(signal_to_noise(at::matmul(x.detach(), weight.detach().t()), y.detach()) > decibels);
  CHECK(signal_to_noise(at::matmul(of_y, weight.detach()).view({2, 128, 256}), x.grad()) > decibels);
  const double of_weight = signal_to_noise(at::matmul(of_y.t(), flat), weight.grad());
  CHECK(of_weight > (recipe == rowwise_with_gw_hp ? 100 : decibels));
}

TEST_CASE(
    "for rows that differ only in magnitude, scales per row lose nothing, and a single scale loses much") {
  using enum Float8Recipe;
  Tensor x = at::randn({128, 256});
  x.narrow(0, 0, 64) *= 1e-7;
  const Tensor weight = at::randn({128, 256});
  const auto noise = [&](Float8Recipe recipe) {
    const Tensor y = linear_output(x, weight, Float8Options{recipe, true}), exact = at::matmul(x, weight.t());
    return signal_to_noise(exact.narrow(0, 0, 64), y.narrow(0, 0, 64));
  };
  CHECK(noise(tensorwise) < 5);
  CHECK(noise(rowwise) > 28);
  CHECK(noise(blockwise) > 28);
  CHECK(noise(mxfp8) > 26);
}

TEST_CASE("quantizing gives the same bits for any number of threads") {
  const Tensor x = at::randn({384, 512}).to(at::kBFloat16);
  for (const Float8Block& block : kBlocks)
    check_same_with_threads([&] {
      const Tensors made = call("quantize_float8", x, block.rows, block.columns, kE4m3, true);
      return Tensors{made[0].view(at::kByte), made[1]};
    });
}

TEST_CASE("float8 refuses unsupported operands and names them") {
  const Tensor x = at::randn({128, 256});
  const auto whole = [](const Tensor& of) { return std::vector<Argument>{of, 0, 0, kE4m3, false}; };
  check_refused("but x is Half", "quantize_float8", whole(x.to(at::kHalf)));
  check_refused("x must be a matrix with dense rows or dense columns", "quantize_float8",
                whole(at::randn({4, 4, 4})));
  CHECK_THROWS_WITH(
      call_op("quantize_float8", whole(x.as_strided({64, 64}, {512, 2}))),
      Catch::Matchers::ContainsSubstring("x must be a matrix with dense rows or dense columns"));
  check_refused("dtype is Float, but must be a float8 type", "quantize_float8",
                {x, 0, 0, static_cast<std::int64_t>(at::kFloat), false});
  check_refused("unsupported scales of blocks of 2 x 128", "quantize_float8", {x, 2, 128, kE4m3, false});
  check_refused("unsupported scales of blocks of 1 x 32", "quantize_float8", {x, 1, 32, kE5m2, true});
  check_refused("sizes of x must be multiples", "quantize_float8",
                {at::randn({4, 100}), 1, 128, kE4m3, false});

  const Tensors a = call("quantize_float8", x, 0, 0, kE5m2, false),
                b = call("quantize_float8", x, 0, 0, kE4m3, false);
  const auto bf16 = static_cast<std::int64_t>(at::kBFloat16);
  const auto product = [&](const Tensors& left, const Tensors& right) {
    return std::vector<Argument>{left[0], left[1], right[0], right[1], bf16, false, true};
  };
  check_refused("a or b must be float8_e4m3fn", "float8_mm", product(a, a));
  check_refused("a must be a contiguous matrix of float8", "float8_mm", product({x, a[1]}, b));
  check_refused("b must have float32 scales", "float8_mm", product(a, {b[0], b[1].to(at::kDouble)}));
  check_refused("rows of a and b must have the same length", "float8_mm",
                product(a, call("quantize_float8", at::randn({8, 8}), 0, 0, kE4m3, false)));
  CHECK_THROWS_WITH(call("float8_mm", a[0], a[1], b[0], b[1], bf16, false, false),
                    Catch::Matchers::ContainsSubstring("a CPU has no products of float8"));
}

}  // namespace rondo

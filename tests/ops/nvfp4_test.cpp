// NVFP4 on the CPU: numbers and scales of the recipe (nvfp4_values.py), stochastic rounding, and
// what has no numbers.
#include "ops/float8/nvfp4.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <iterator>
#include <limits>

#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kStream = 12345;
const Argument kNone = std::optional<Tensor>();  // rounds to nearest

Tensors quantized(const Tensor& x, const Nvfp4Options& options = {}) {
  const auto [values, scales] = quantize_nvfp4(x, options);
  return {values, scales};
}
Tensor dequantized(const Tensors& of) {
  const Tensor scales = of[1].to(at::kDouble).repeat_interleave(kNvfp4Block, 1);
  return of[0].to(at::kDouble) * scales;
}
Tensor bytes(const Tensors& of) { return of[0].view(at::kByte); }

// The output of nvfp4_values.py: six rows of scales, and of numbers as their four bits.
struct Expected {
  const char* name;
  std::array<float, 12> scales;
  const char* digits;
};
const Expected kExpected[] = {
    {"pieces",
     {0x1.db6db6p-10F, 0x1.db6db6p-10F, 0x1.824924p-7F, 0x1.0b6db6p-6F, 0x1.a00000p-3F, 0x1.46db6ep-3F,
      0x1.db6db6p+1F, 0x1.db6db6p+1F, 0x1.46db6ep+5F, 0x1.a00000p+5F, 0x1.db6db6p-10F, 0x1.db6db6p-10F},
     "89088180380d8080181280b80c008118"
     "6b80d00d1984a87a00a18a2904907908"
     "9182380e80f8181286c80e00f1184a87"
     "a00b08c29849079089180280590f8180"
     "285480e80f1183a86b80c00d1984907a"
     "009089180380d8088181280b80c00811"},
    {"squares",
     {0x1.824924p+5F, 0x1.a00000p+5F, 0x1.824924p+5F, 0x1.a00000p+5F, 0x1.824924p+5F, 0x1.a00000p+5F,
      0x1.824924p+5F, 0x1.a00000p+5F, 0x1.824924p+5F, 0x1.a00000p+5F, 0x1.824924p+5F, 0x1.a00000p+5F},
     "88088080080880800800808808008008"
     "08808008088088080080880800800808"
     "80800808808808008088080080080880"
     "80080880880801808808008008098080"
     "284480d80f0183a86b80c00d1984907a"
     "00808808008088088080080880800800"},
    {"rotated",
     {0x1.3d0c30p-10F, 0x1.3d0c30p-10F, 0x1.0199e8p-7F, 0x1.0199e8p-7F, 0x1.db9248p-4F, 0x1.0199e8p-3F,
      0x1.db9248p+0F, 0x1.b3f0c2p+0F, 0x1.db9248p+4F, 0x1.156aaap+5F, 0x1.3d0c30p-10F, 0x1.3d0c30p-10F},
     "c20bb11c28b44994381b192994b8b212"
     "0e87570a35dab576edda37466874debd"
     "63ca16bf1e36fc69817c5a365f1bea8d"
     "5d5deac7a5f26e0df51ee23f68e77bb6"
     "622f0b6ab7d0c5820d17579a46cab576"
     "1324b9baac8b32423199139c0a13c939"},
};

// The operand of nvfp4_values.py.
Tensor operand() {
  Tensor x = at::empty({16, 32}, at::kDouble);
  for (int i = 0; i < 16 * 32; ++i)
    x[i / 32][i % 32] = (i * 37 % 101 - 50) * std::exp2(i * 5 % 7 - 3) * std::exp2(i / 32 % 5 * 4 - 16);
  return x;
}

// Returns the four bits of a number of E2M1 that is stored as one of E4M3.
int code_of(std::uint8_t byte) {
  constexpr int kBytes[] = {0, 0x30, 0x38, 0x3c, 0x40, 0x44, 0x48, 0x4c};
  const int* const code = std::find(std::begin(kBytes), std::end(kBytes), byte & 0x7f);
  REQUIRE(code != std::end(kBytes));
  return static_cast<int>(code - std::begin(kBytes)) + (byte >> 7) * 8;
}

}  // namespace

TEST_CASE("NVFP4 has the scales and numbers of the recipe, by pieces, by squares, and rotated") {
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble);
  const bool transposed = GENERATE(false, true);
  const Tensor x = operand().to(dtype);
  for (std::size_t k = 0; k < std::size(kExpected); ++k) {
    const Expected& expected = kExpected[k];
    INFO(expected.name);
    const Tensors result =
        checked_call("quantize_nvfp4", {transposed ? x.t().contiguous().t() : x, k == 1, k == 2, kNone});
    std::string digits;
    for (std::int64_t row = 0; row < 6; ++row) {
      for (std::int64_t piece = 0; piece < 2; ++piece)
        CHECK(result[1][row][piece].item<float>() ==
              expected.scales[static_cast<std::size_t>(2 * row + piece)]);
      for (std::int64_t i = 0; i < 32; ++i)
        digits += fmt::format("{:x}", code_of(bytes(result)[row][i].item<std::uint8_t>()));
    }
    CHECK(digits == expected.digits);
  }
}

TEST_CASE("a weight in squares of 16 x 16 has the numbers of its transpose") {
  const Tensor x = at::randn({48, 64}) * at::randn({48, 64}).exp();
  CHECK(at::equal(bytes(quantized(x, {.squares = true})), bytes(quantized(x.t(), {.squares = true})).t()));
  CHECK_FALSE(at::equal(bytes(quantized(x)), bytes(quantized(x.t())).t()));
}

// The largest number of a block is 6 times its scale, so a step of the numbers is a third of it.
TEST_CASE("numbers in NVFP4 are within half a step of what they stand for") {
  const at::ScalarType dtype = any_dtype();
  const Tensor x = (at::randn({32, 64}) * at::randn({32, 64}).exp()).to(dtype);
  const Tensors result = quantized(x);
  const Tensor error = at::abs(dequantized(result) - x.to(at::kDouble)).view({32, 4, 16});
  // A scale is rounded to 3 bits, by which the largest number may be beyond 6 times it.
  CHECK((error <= result[1].to(at::kDouble).unsqueeze(-1) * (1 + 6.0 / 16)).all().item<bool>());
}

TEST_CASE("rotations of both operands of a product cancel out") {
  const Tensor a = at::randn({32, 256}), b = at::randn({64, 256});
  const Tensor exact = at::matmul(a.to(at::kDouble), b.to(at::kDouble).t());
  const auto error = [&](bool rotate_a, bool rotate_b) {
    const Tensor product = at::matmul(dequantized(quantized(a, {.rotate = rotate_a})),
                                      dequantized(quantized(b, {.rotate = rotate_b})).t());
    return ((product - exact).norm() / exact.norm()).item<double>();
  };
  CHECK(error(false, false) < 0.15);
  CHECK(error(true, true) < 0.15);
  CHECK(error(true, false) > 1);
}

TEST_CASE("rotation by ops of LibTorch, as on GPUs, has the bits of the CPU's kernel") {
  const Tensor x = (at::randn({48, 144}) * at::randn({48, 1}).exp()).to(any_dtype());
  for (const Tensor& operand : {x, x.t()}) {
    const Tensors made = quantized(operand, {.rotate = true}),
                  expected = quantized(nvfp4_operand(operand, /*rotate=*/true, /*stochastic=*/false).x);
    CHECK(at::equal(bytes(made), bytes(expected)));
    CHECK(at::equal(made[1], expected[1]));
  }
}

TEST_CASE("stochastic rounding keeps the mean, and nearest rounding does not") {
  // The largest number, 6, is exact; the others are between numbers of E2M1.
  Tensor x = at::full({16, 32}, 0.1F);
  for (int i = 0; i < 16 * 32; ++i)
    x[i / 32][i % 32] = (i % 16 == 0 ? 6.0F : 0.37F * static_cast<float>(i % 16));
  const Tensor wide = x.to(at::kDouble);
  Tensor sum = at::zeros_like(wide);
  constexpr int kTimes = 2000;
  for (int time = 0; time < kTimes; ++time) {
    const Tensor rounded = dequantized(quantized(x, {.stream = time}));
    CHECK((at::abs(rounded - wide) < 2.001).all().item<bool>());
    sum += rounded;
  }
  // The deviation of a mean is at most half the largest step, 2, over the root of the number:
  // 0.022.
  CHECK(at::abs(sum / kTimes - wide).max().item<double>() < 0.022 * 5);
  CHECK(at::abs(dequantized(quantized(x)) - wide).max().item<double>() > 0.4);
  // Every element of a column has the same value; its draws differ.
  CHECK((sum / kTimes - wide).mean().item<double>() < 0.002);
  CHECK((sum / kTimes - wide).mean().item<double>() > -0.002);
}

TEST_CASE("draws are functions of the stream, the element and the bits of the whole matrix") {
  const at::ScalarType dtype = any_dtype();
  const Tensor x = at::randn({32, 64}).to(dtype);
  const auto draw = [&](const Tensor& of, std::int64_t stream) {
    return bytes(quantized(of, {.stream = stream}));
  };
  CHECK(at::equal(draw(x, kStream), draw(x.clone(), kStream)));
  CHECK(at::equal(draw(x, kStream), draw(x.t().contiguous().t(), kStream)));
  CHECK_FALSE(at::equal(draw(x, kStream), draw(x, kStream + 1)));
  // A change of one small number changes draws of others.
  Tensor other = x.clone();
  other[31][63] = other[31][63] * 0.5;
  CHECK_FALSE(at::equal(draw(x, kStream).narrow(0, 0, 16), draw(other, kStream).narrow(0, 0, 16)));
  CHECK(at::equal(bytes(quantized(x)).narrow(0, 0, 16), bytes(quantized(other)).narrow(0, 0, 16)));
}

TEST_CASE("a matrix with a nan or an infinity has no numbers in NVFP4, and zeros stay zeros") {
  const double lost =
      GENERATE(std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity());
  const bool rotate = GENERATE(false, true);
  Tensor x = at::randn({16, 32});
  x[3][17] = lost;
  const Tensors result = quantized(x, {.rotate = rotate, .stream = kStream});
  CHECK(at::isnan(result[1]).all().item<bool>());
  for (const auto& stream : {std::optional<std::int64_t>(), std::optional(kStream)}) {
    const Tensors zeros = quantized(at::zeros({16, 32}), {.rotate = rotate, .stream = stream});
    CHECK(dequantized(zeros).eq(0).all().item<bool>());
  }
  const Tensor tiny = at::full({16, 32}, 1e-44);
  CHECK(at::abs(dequantized(quantized(tiny))).max().item<double>() < 1e-38);
}

TEST_CASE("quantizing to NVFP4 gives the same bits for any number of threads") {
  const Tensor x = at::randn({384, 512}).to(at::kBFloat16);
  for (const bool rotate : {false, true})
    check_same_with_threads([&] {
      const Tensors made = quantized(x, {.rotate = rotate, .stream = kStream});
      return Tensors{bytes(made), made[1]};
    });
}

TEST_CASE("NVFP4 refuses unsupported operands and names them") {
  const auto of = [](const Tensor& x) { return std::vector<Argument>{x, false, false, kNone}; };
  check_refused("but x is Half", "quantize_nvfp4", of(at::randn({16, 16}).to(at::kHalf)));
  check_refused("x must be a matrix with dense rows or dense columns", "quantize_nvfp4",
                of(at::randn({2, 16, 16})));
  check_refused("the sizes of x must be multiples of 16", "quantize_nvfp4", of(at::randn({16, 24})));
  check_refused("the sizes of x must be multiples of 16", "quantize_nvfp4", of(at::randn({8, 32})));
}

}  // namespace rondo

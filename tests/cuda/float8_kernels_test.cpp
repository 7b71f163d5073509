// The CUDA kernels of float8 quantization on the host (tests/cuda/host/cuda_runtime_api.h) against
// the CPU's: every bit of the values and of the scales.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "ops/float8/float8.h"
#include "ops/float8/float8_cuda.h"
#include "ops/float8/nvfp4.h"
#include "ops/float8/nvfp4_cuda.h"
#include "tests/cuda/element_of.h"
#include "tests/ops/call_op.h"

namespace rondo {
namespace {

using at::Tensor;
using enum cuda::Float8Share;

constexpr auto kInfinity = std::numeric_limits<double>::infinity(),
               kNone = std::numeric_limits<double>::quiet_NaN();

Float8Block block_of(cuda::Float8Share share) {
  if (share == whole) return {0, 0};
  if (share == row) return {1, 0};
  return {share == piece ? 1 : kFloat8Block, kFloat8Block};
}

// Returns x in this layout: rows, or columns, with `apart` elements between them, half of them
// before the first.
Tensor laid_out(const Tensor& x, bool dense_rows, std::int64_t apart) {
  const Tensor source = dense_rows ? x : x.t();
  const Tensor wide = at::full({source.size(0), source.size(1) + apart}, 1e30, x.options());
  const Tensor inside = wide.narrow(1, apart / 2, source.size(1));
  inside.copy_(source);
  return dense_rows ? inside : inside.t();
}

Float8Matrix by_kernels(const Tensor& x, bool dense_rows, cuda::Float8Share share, at::ScalarType dtype,
                        bool power_of_two) {
  const Tensor values = at::full({x.numel() + 16}, 0x55, at::kByte);
  const auto [shape, scales] =
      quantize_float8_result(x, block_of(share).rows, block_of(share).columns, dtype);
  if (scales.size(1) > 1 && share == square)
    scales.narrow(1, 0, x.size(1) / kFloat8Block).fill_(77);  // the padding stays zero
  else
    scales.fill_(77);
  const cuda::Float8Source source{x.size(0),          x.size(1),  element_of(x),
                                  x.const_data_ptr(), dense_rows, x.stride(dense_rows ? 0 : 1)};
  const Tensor workspace = at::full({cuda::float8_workspace(source, share) + 1}, 77, at::kFloat);
  const auto format = dtype == at::kFloat8_e4m3fn ? float8::Format::e4m3 : float8::Format::e5m2;
  cuda::quantize_float8(source, share,
                        {values.mutable_data_ptr<std::uint8_t>(), scales.mutable_data_ptr<float>(),
                         scales.stride(0), scales.stride(1), format, power_of_two},
                        workspace.mutable_data_ptr<float>(), nullptr);
  CHECK(values.narrow(0, x.numel(), 16).eq(0x55).all().item<bool>());
  CHECK(workspace[-1].item<float>() == 77);
  return {values.narrow(0, 0, x.numel()).view(x.sizes()).view(dtype), scales};
}

void check_same(const Tensor& x, bool dense_rows, cuda::Float8Share share, at::ScalarType dtype,
                bool power_of_two) {
  INFO(x.scalar_type() << " " << x.sizes() << " by " << x.strides() << " as " << dtype << ", shared by "
                       << static_cast<int>(share) << (power_of_two ? ", a power of two" : ""));
  const auto [values, scales] = quantize_float8(x, block_of(share), dtype, power_of_two);
  const auto [made_values, made_scales] = by_kernels(x, dense_rows, share, dtype, power_of_two);
  CHECK(at::equal(made_values.view(at::kByte), values.view(at::kByte)));
  CHECK(at::equal(made_scales.contiguous().view(at::kInt), scales.contiguous().view(at::kInt)));
}

struct Shared {
  cuda::Float8Share share;
  std::int64_t rows, columns;
};

}  // namespace

TEST_CASE(
    "the kernels of quantize_float8 give the CPU's bits for dense rows or columns, strided or unaligned") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16);
  const auto [dtype, power_of_two] =
      GENERATE(std::pair(at::kFloat8_e4m3fn, true), std::pair(at::kFloat8_e5m2, false));
  const bool dense_rows = GENERATE(true, false);
  const auto [share, rows, columns] =
      GENERATE(Shared{whole, 1, 1}, Shared{whole, 47, 55}, Shared{whole, 136, 144}, Shared{row, 1, 1},
               Shared{row, 47, 55}, Shared{row, 136, 144}, Shared{piece, 1, 128}, Shared{piece, 140, 128},
               Shared{square, 128, 128}, Shared{square, 256, 256});
  const std::int64_t apart = GENERATE(0, 16, 17);
  at::manual_seed(11);
  const Tensor x = (at::randn({rows, columns}) * at::randn({rows, columns}).mul(3).exp()).to(type);
  check_same(laid_out(x, dense_rows, apart), dense_rows, share, dtype, power_of_two);
}

TEST_CASE(
    "the kernels of quantize_float8 find the largest magnitude of a row longer than a block's step or part") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16);
  const bool dense_rows = GENERATE(true, false);
  const std::int64_t place = GENERATE(0, 1100, 2099);
  at::manual_seed(11);
  const Tensor x = at::randn({3, 2100}).to(type);
  x[1][place] = -1e4;
  check_same(laid_out(x, dense_rows, 16), dense_rows, row, at::kFloat8_e4m3fn, false);
}

TEST_CASE(
    "the kernels of quantize_float8 find the largest magnitude of long lines, and of more than a search has "
    "blocks") {
  const auto [lines, width] = GENERATE(std::pair(2, 8300), std::pair(520, 8));
  const Tensor x = at::randn({lines, width});
  x[lines - 1][width - 1] = -1e4;
  check_same(laid_out(x, true, 16), true, whole, at::kFloat8_e4m3fn, false);
}

TEST_CASE("the kernels of quantize_float8 give the CPU's bits for transposed matrices of a stack") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16);
  // Aligned or not, with one part of the search of a row, and with two.
  const auto [rows, columns] = GENERATE(std::pair(144, 48), std::pair(37, 29), std::pair(16, 300));
  at::manual_seed(11);
  const Tensor stored = (at::randn({3, columns, rows}) * at::randn({3, columns, rows}).mul(3).exp()).to(type);
  const Tensor x = stored.transpose(1, 2);
  const auto [values, scales] = quantize_float8(x, {1, 0}, at::kFloat8_e4m3fn, true);
  const Tensor made = at::full({x.numel() + 16}, 0x55, at::kByte),
               made_scales = at::full({3, rows, 1}, 77.0f);
  cuda::Float8Source source{rows, columns, element_of(x), x.const_data_ptr(), /*dense_rows=*/false, rows};
  source.matrices = 3;
  const Tensor workspace = at::full({cuda::float8_workspace(source, row) + 1}, 77, at::kFloat);
  cuda::quantize_float8(source, row,
                        {made.mutable_data_ptr<std::uint8_t>(), made_scales.mutable_data_ptr<float>(), 1, 1,
                         float8::Format::e4m3, true},
                        workspace.mutable_data_ptr<float>(), nullptr);
  CHECK(at::equal(made.narrow(0, 0, x.numel()).view(x.sizes()), values.view(at::kByte)));
  CHECK(made.narrow(0, x.numel(), 16).eq(0x55).all().item<bool>());
  CHECK(workspace[-1].item<float>() == 77);
  CHECK(at::equal(made_scales.view(at::kInt), scales.view(at::kInt)));
}

// The sizes take one part of the search for the maximum, and several. A flat shard of FSDP is one
// row, or rows of a tile.
TEST_CASE("the kernels of largest_magnitude and quantize_float8_by give the CPU's bits") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16);
  const auto [rows, columns] = GENERATE(std::pair(1, 3), std::pair(47, 55), std::pair(1, 20000),
                                        std::pair(200, 128), std::pair(520, 40));
  at::manual_seed(11);
  const Tensor x = (at::randn({rows, columns}) * at::randn({rows, columns}).mul(3).exp()).to(type);
  x[rows - 1][columns - 1] = -1e6;
  x[0][0] = kNone;
  const cuda::Float8Source source{rows, columns, element_of(x), x.const_data_ptr(), true, columns};
  const Tensor workspace = at::full({cuda::float8_workspace(source, whole) + 1}, 77, at::kFloat),
               largest = at::full({2}, 77, at::kFloat);
  cuda::largest_magnitude(source, largest.mutable_data_ptr<float>(), workspace.mutable_data_ptr<float>(),
                          nullptr);
  CHECK(workspace[-1].item<float>() == 77);
  CHECK(largest[1].item<float>() == 77);
  CHECK(largest[0].item<float>() == call("largest_magnitude", x)[0].item<float>());
  const std::vector<Tensor> expected = call("quantize_float8_by", x, largest.narrow(0, 0, 1),
                                            static_cast<std::int64_t>(at::kFloat8_e5m2), false);
  const Tensor values = at::full({x.numel() + 16}, 0x55, at::kByte), scale = at::zeros({1, 1});
  cuda::quantize_float8_by(source, largest.const_data_ptr<float>(),
                           {values.mutable_data_ptr<std::uint8_t>(), scale.mutable_data_ptr<float>(), 1, 1,
                            float8::Format::e5m2, false},
                           nullptr);
  CHECK(at::equal(values.narrow(0, 0, x.numel()).view(x.sizes()), expected[0].view(at::kByte)));
  CHECK(values.narrow(0, x.numel(), 16).eq(0x55).all().item<bool>());
  CHECK(at::equal(scale, expected[1]));
}

TEST_CASE("the kernel of transpose_float8 transposes tiles, parts of tiles and lines that are not aligned") {
  const auto [rows, columns] = GENERATE(std::pair(128, 128), std::pair(144, 272), std::pair(1, 300),
                                        std::pair(37, 145), std::pair(160, 17));
  const std::int64_t shift = GENERATE(0, 1);
  at::manual_seed(11);
  const Tensor storage = at::randint(256, {rows * columns + 1}, at::kByte),
               x = storage.narrow(0, shift, rows * columns).view({rows, columns}),
               to = at::full({rows * columns + 16}, 0x55, at::kByte);
  cuda::transpose_float8(rows, columns, x.const_data_ptr<std::uint8_t>(), to.mutable_data_ptr<std::uint8_t>(),
                         nullptr);
  CHECK(at::equal(to.narrow(0, 0, rows * columns).view({columns, rows}), x.t()));
  CHECK(to.narrow(0, rows * columns, 16).eq(0x55).all().item<bool>());
}

TEST_CASE("the kernel of quantize_float8_runs writes zeros after the last end and reads nothing there") {
  const std::int64_t columns = GENERATE(64, 55), filled = GENERATE(0, 5, 8);
  at::manual_seed(11);
  Tensor x = at::randn({8, columns});
  x.narrow(0, filled, 8 - filled).fill_(kNone);
  const Tensor ends = at::full({1}, filled, at::kInt);
  const auto [values, scales] = quantize_float8_runs(x, ends);
  const Tensor made = at::full({x.numel() + 16}, 0x55, at::kByte), made_scales = at::full({8, 1}, 77.0f);
  cuda::Float8Source source{8, columns, element_of(x), x.const_data_ptr(), /*dense_rows=*/true, columns};
  source.rows_end = ends.const_data_ptr<std::int32_t>();
  cuda::quantize_float8(source, row,
                        {made.mutable_data_ptr<std::uint8_t>(), made_scales.mutable_data_ptr<float>(), 1, 1,
                         float8::Format::e4m3, true},
                        nullptr, nullptr);
  CHECK(at::equal(made.narrow(0, 0, x.numel()).view(x.sizes()), values.view(at::kByte)));
  CHECK(made.narrow(0, x.numel(), 16).eq(0x55).all().item<bool>());
  CHECK(at::equal(made_scales, scales));
}

TEST_CASE("the kernel of quantize_nvfp4 gives the CPU's bits, rounded to nearest or stochastically") {
  const auto [rows, columns] = GENERATE(table<std::int64_t, std::int64_t>({{16, 16}, {48, 80}, {32, 4096}}));
  const bool squares = GENERATE(false, true);
  const std::optional<std::int64_t> draws =
      GENERATE(as<std::optional<std::int64_t>>(), std::nullopt, std::int64_t{77} << 40);
  const double factor = GENERATE(0.0, 1.0, 1e-42, 1e37, kInfinity);
  at::manual_seed(13);
  const Tensor x = at::randn({rows, columns}) * at::randn({rows, columns}).exp() * factor;
  const auto [values, scales] = quantize_nvfp4(x, {.squares = squares, .stream = draws});
  const Tensor made = at::full({x.numel() + 16}, 0x55, at::kByte),
               made_scales = at::full({scales.numel() + 1}, 77.0f);
  const Nvfp4Operand operand = nvfp4_operand(x, /*rotate=*/false, draws.has_value());
  cuda::quantize_nvfp4(
      {operand.x.const_data_ptr<float>(), rows, columns, squares, operand.largest.const_data_ptr<float>(),
       draws ? operand.bits.const_data_ptr<std::int64_t>() : nullptr, draws.value_or(0),
       made.mutable_data_ptr<std::uint8_t>(), made_scales.mutable_data_ptr<float>()},
      nullptr);
  CHECK(at::equal(made.narrow(0, 0, x.numel()).view(x.sizes()), values.view(at::kByte)));
  CHECK(made.narrow(0, x.numel(), 16).eq(0x55).all().item<bool>());
  CHECK(at::equal(made_scales.narrow(0, 0, scales.numel()).view(at::kInt), scales.flatten().view(at::kInt)));
  CHECK(made_scales[-1].item<float>() == 77);
}

TEST_CASE("the kernels of quantize_float8 give the CPU's bits for nans, infinities, ties and tiny numbers") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16);
  const auto [dtype, power_of_two] =
      GENERATE(std::pair(at::kFloat8_e4m3fn, false), std::pair(at::kFloat8_e5m2, true));
  const bool dense_rows = GENERATE(true, false);
  const cuda::Float8Share share = GENERATE(whole, row, piece, square);
  const double largest = GENERATE(448.0, 57344.0, 1e-30, 3e38);
  const bool infinite = GENERATE(false, true);
  // Ties between numbers of both formats, down to subnormal numbers and below.
  const Tensor x = at::empty({128, 256}, at::kDouble);
  auto* const flat = x.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double magnitude = std::ldexp(static_cast<double>(32 + i / 2 % 32), -static_cast<int>(i / 64 % 24));
    flat[i] = (i % 2 == 0 ? largest : -largest) / 63 * magnitude;
  }
  flat[2] = kNone, flat[1000] = -kNone;
  flat[3] = 0.0, flat[4] = -0.0;
  flat[5] = std::ldexp(1.0, -149), flat[6] = -std::ldexp(1.0, -130), flat[7] = std::ldexp(1.0, -126);
  x[100].fill_(0.0);
  x[101].fill_(-0.0);
  x[102].fill_(kNone);
  if (infinite) flat[9] = kInfinity, flat[103 * 256 + 200] = -kInfinity;
  check_same(laid_out(x.to(type), dense_rows, 0), dense_rows, share, dtype, power_of_two);
}

}  // namespace rondo

// Matrices of float8: every bit of values and scales, and products within the rounding of sums. On
// the CPU, which has no float8 products, they are emulated. So are products of experts.
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <array>
#include <tuple>

#include "ops/float8/float8.h"
#include "ops/float8/nvfp4.h"
#include "tests/cuda/kernel_case.h"

namespace rondo {
namespace {

struct NamedBlock {
  const char* name;
  Float8Block of;
};
constexpr NamedBlock kWhole{"whole", {0, 0}}, kRow{"rows", {1, 0}}, kPiece{"1 x 128", {1, kFloat8Block}},
    kSquare{"128 x 128", {kFloat8Block, kFloat8Block}};
constexpr std::array kBlocks = {kWhole, kRow, kPiece, kSquare};

std::int64_t number_of(at::ScalarType dtype) { return static_cast<std::int64_t>(dtype); }

void check_quantize(Checks& checks, c10::Device device) {
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat})
    for (const at::ScalarType dtype : {at::kFloat8_e4m3fn, at::kFloat8_e5m2})
      for (const NamedBlock& block : kBlocks)
        for (const bool dense_rows : {true, false}) {
          const Inputs draw(type);
          // More than one part of every search; with a partial tile of rows and pieces.
          const std::int64_t rows = block.of.rows == kFloat8Block ? 1408 : 1376;
          const Tensor x = draw.normal({rows, 1152}) * (3 * draw.normal({rows, 1152})).exp();
          check(checks, device,
                {fmt::format("quantize_float8, {}, {} as {}, dense {}: the CPU's bits", block.name,
                             in_words(type), c10::toString(dtype), dense_rows ? "rows" : "columns"),
                 "quantize_float8", type, type, 0, true, [=, b = block.of](const Place& p) {
                   const Tensor there = at_place(x, p),
                                lying = dense_rows ? there : there.t().contiguous().t();
                   Tensors both, one;
                   for (const bool power_of_two : {false, true}) {
                     one = call("quantize_float8", lying, b.rows, b.columns, number_of(dtype), power_of_two);
                     both.push_back(one[0].view(at::kByte));
                     both.push_back(one[1].view(at::kInt));
                   }
                   return both;
                 }});
        }
}

// A flat part of a parameter, and a matrix, with one part of the search or several; then bytes
// transposed, with partial tiles.
void check_shared_scale(Checks& checks, c10::Device device) {
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat})
    for (const auto& [rows, columns] : {std::pair(1, 1500), std::pair(1, 655360), std::pair(1376, 1152)}) {
      const Inputs draw(type);
      const Tensor x = draw.normal({rows, columns}) * (3 * draw.normal({rows, columns})).exp();
      check(checks, device,
            {fmt::format("quantize_float8_by, {} x {}, {}: the CPU's bits", rows, columns, in_words(type)),
             "quantize_float8_by", type, type, 0, true, [=](const Place& p) {
               const Tensor there = rows == 1 ? at_place(x, p).flatten() : at_place(x, p);
               const Tensors largest = call("largest_magnitude", there),
                             made = call("quantize_float8_by", there, largest[0],
                                         number_of(at::kFloat8_e4m3fn), false);
               const Tensors turned = call("transpose_float8", made[0].view({-1, columns}));
               return Tensors{largest[0], made[0].view(at::kByte), made[1].view(at::kInt),
                              turned[0].view(at::kByte)};
             }});
    }
}

// a [M, K] is in `format_a`, b [N, K] in float8_e4m3fn.
void check_product(Checks& checks, c10::Device device, const NamedBlock& block_a, const NamedBlock& block_b,
                   at::ScalarType format_a, at::ScalarType type, std::int64_t inner) {
  const Inputs draw(at::kBFloat16);
  const auto quantized = [&](std::int64_t rows, const NamedBlock& block, at::ScalarType dtype) {
    return quantize_float8(draw.normal({rows, inner}).to(at::kFloat), block.of, dtype, false);
  };
  const Float8Matrix a = quantized(384, block_a, format_a);
  const Float8Matrix b = quantized(256, block_b, at::kFloat8_e4m3fn);
  for (const bool fast : {false, true})
    for (const bool emulate : {false, true}) {
      if (fast && emulate) continue;
      check(checks, device,
            {fmt::format("float8_mm, {} {} by {}, inner {}, to {}{}{}", block_a.name, c10::toString(format_a),
                         block_b.name, inner, in_words(type), fast ? ", fast sums" : "",
                         emulate ? ", emulated" : ""),
             "float8_mm", type, at::kDouble, (fast ? 4 : 2) * rounding(at::kBFloat16), true,
             [=](const Place& p) {
               const auto there = [&](const Tensor& x) { return x.to(p.device); };
               return call("float8_mm", there(std::get<0>(a)), there(std::get<1>(a)), there(std::get<0>(b)),
                           there(std::get<1>(b)), number_of(p.type), fast, emulate || p.device.is_cpu());
             }});
    }
}

// Matrices of experts as they are and transposed, and rows of runs; with rows after the last end.
void check_quantized_experts(Checks& checks, c10::Device device, const Tensor& ends) {
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const Inputs draw(type);
    // More than one part of the search of a row.
    const Tensor experts = draw.normal({3, 528, 1104}) * (3 * draw.normal({3, 528, 1104})).exp();
    for (const bool transposed : {false, true})
      check(checks, device,
            {fmt::format("quantize_float8, experts, {}{}: the CPU's bits", in_words(type),
                         transposed ? ", transposed" : ""),
             "quantize_float8", type, type, 0, true, [=](const Place& p) {
               const Tensor there = at_place(experts, p);
               const Tensors made =
                   call("quantize_float8", transposed ? there.transpose(1, 2) : there, std::int64_t{1},
                        std::int64_t{0}, number_of(at::kFloat8_e4m3fn), true);
               return Tensors{made[0].view(at::kByte), made[1].view(at::kInt)};
             }});
    const Tensor x = draw.normal({700, 1040}) * draw.normal({700, 1040}).exp();
    check(checks, device,
          {fmt::format("quantize_float8_runs, {}: the CPU's bits", in_words(type)), "quantize_float8_runs",
           type, type, 0, true, [=](const Place& p) {
             const Tensors made =
                 call("quantize_float8_runs", at_place(x, p), ends.to(p.device), std::int64_t{0});
             return Tensors{made[0].view(at::kByte), made[1].view(at::kInt)};
           }});
  }
}

// Numbers of experts in blocks: matrices, rows of runs, and the runs moved to multiples of 128.
void check_blocks_of_experts(Checks& checks, c10::Device device, const Tensor& ends) {
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const Inputs draw(type);
    const auto name = [&](const std::string& op) {
      return fmt::format("{}, {}: the CPU's bits", op, in_words(type));
    };
    const auto bits = [](const Tensors& quantized) {
      return Tensors{quantized[0].view(at::kByte), quantized[1].view(at::kInt)};
    };
    const Tensor x = draw.normal({700, 1152}) * draw.normal({700, 1152}).exp(),
                 experts = draw.normal({3, 384, 640}) * (3 * draw.normal({3, 384, 640})).exp();
    for (const auto& [rows, columns] : {std::pair{kFloat8Block, kFloat8Block}, {std::int64_t{1}, kMxBlock}})
      for (const bool transposed : {false, true}) {
        const std::string what = fmt::format("quantize_float8, experts by {} x {}{}", rows, columns,
                                             transposed ? ", transposed" : "");
        check(checks, device,
              {name(what), "quantize_float8", type, type, 0, true,
               [=, rows = rows, columns = columns](const Place& p) {
                 const Tensor there = at_place(experts, p);
                 return bits(call("quantize_float8", transposed ? there.transpose(1, 2) : there, rows,
                                  columns, number_of(at::kFloat8_e4m3fn), true));
               }});
      }
    for (const bool dense_rows : {true, false})
      check(checks, device,
            {name(dense_rows ? "quantize_float8, 1 x 32, dense rows"
                             : "quantize_float8, 1 x 32, dense columns"),
             "quantize_float8", type, type, 0, true, [=](const Place& p) {
               const Tensor there = at_place(x, p);
               return bits(call("quantize_float8", dense_rows ? there : there.t().contiguous().t(),
                                std::int64_t{1}, kMxBlock, number_of(at::kFloat8_e4m3fn), true));
             }});
    check(checks, device,
          {name("quantize_float8_columns"), "quantize_float8_columns", type, type, 0, true,
           [=](const Place& p) {
             const Tensors padded = call("pad_runs", at_place(x, p), ends.to(p.device), kMxBlock);
             return bits(call("quantize_float8_columns", padded[0], padded[1]));
           }});
    for (const std::int64_t piece : {kFloat8Block, kMxBlock}) {
      const std::string in_pieces = fmt::format("quantize_float8_runs by 1 x {}", piece),
                        padded = fmt::format("pad_runs to {}", piece);
      check(checks, device,
            {name(in_pieces.c_str()), "quantize_float8_runs", type, type, 0, true, [=](const Place& p) {
               return bits(call("quantize_float8_runs", at_place(x, p), ends.to(p.device), piece));
             }});
      check(checks, device, {name(padded.c_str()), "pad_runs", type, type, 0, true, [=](const Place& p) {
                               return call("pad_runs", at_place(x, p), ends.to(p.device), piece);
                             }});
    }
  }
}

// Numbers in NVFP4: activations, weights, and both operands of the gradient of a weight.
void check_nvfp4(Checks& checks, c10::Device device) {
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const Inputs draw(type);
    const Tensor x = draw.normal({704, 1040}) * draw.normal({704, 1040}).exp();
    const auto compare = [&](const char* name, bool squares, bool rotate, std::optional<std::int64_t> stream,
                             bool dense_rows) {
      check(checks, device,
            {fmt::format("quantize_nvfp4, {}, {}: the CPU's bits", name, in_words(type)), "quantize_nvfp4",
             type, type, 0, true, [=](const Place& p) {
               const Tensor there = at_place(x, p);
               const auto [values, scales] =
                   quantize_nvfp4(dense_rows ? there : there.t().contiguous().t(), {squares, rotate, stream});
               return Tensors{values.view(at::kByte), scales.view(at::kInt)};
             }});
    };
    compare("pieces", false, false, std::nullopt, true);
    compare("squares, dense columns", true, false, std::nullopt, false);
    compare("stochastically", false, false, 12345, true);
    compare("rotated and stochastically, dense columns", false, true, 12345, false);
  }
}

// Emulated: rows by matrices in 128 x 128, and runs of columns, which are whole blocks.
void check_grouped_product_of_blocks(Checks& checks, c10::Device device) {
  const Inputs draw(at::kBFloat16);
  const Tensor ends = at::tensor({0, 256, 256, 640}, at::kInt);
  const auto rows = [&](std::int64_t count, std::int64_t inner) {
    return quantize_float8(draw.normal({count, inner}).to(at::kFloat), {1, kFloat8Block}, at::kFloat8_e4m3fn,
                           true);
  };
  const Float8Matrix of_tokens =
      quantize_float8_runs(draw.normal({700, 256}).to(at::kFloat), ends, kFloat8Block);
  const Float8Matrix experts = quantize_float8(draw.normal({4, 384, 256}).to(at::kFloat),
                                               {kFloat8Block, kFloat8Block}, at::kFloat8_e4m3fn, true);
  for (const auto& [name, a, b] : {std::tuple("rows by experts", of_tokens, experts),
                                   {"columns of runs", rows(384, 640), rows(256, 640)}})
    check(checks, device,
          {fmt::format("float8_grouped_mm in blocks of 128, {}, emulated", name), "float8_grouped_mm",
           at::kBFloat16, at::kDouble, 2 * rounding(at::kBFloat16), true, [=, a = a, b = b](const Place& p) {
             const auto there = [&](const Tensor& x) { return x.to(p.device); };
             return call("float8_grouped_mm", there(std::get<0>(a)), there(std::get<1>(a)),
                         there(std::get<0>(b)), there(std::get<1>(b)), there(ends), number_of(p.type), false,
                         true);
           }});
}

// Of small and large runs, and with results that the tiles of LibTorch's kernel do not divide.
void check_grouped_product(Checks& checks, c10::Device device, const Tensor& ends, std::int64_t inner,
                           std::int64_t columns) {
  const Inputs draw(at::kBFloat16);
  const Float8Matrix a = quantize_float8_runs(draw.normal({700, inner}).to(at::kFloat), ends);
  const Float8Matrix b = quantize_float8(draw.normal({ends.numel(), columns, inner}).to(at::kFloat), {1, 0},
                                         at::kFloat8_e4m3fn, true);
  for (const bool fast : {false, true})
    for (const bool emulate : {false, true}) {
      if (fast && emulate) continue;
      check(checks, device,
            {fmt::format("float8_grouped_mm, inner {}, columns {}{}{}", inner, columns,
                         fast ? ", fast sums" : "", emulate ? ", emulated" : ""),
             "float8_grouped_mm", at::kBFloat16, at::kDouble, (fast ? 4 : 2) * rounding(at::kBFloat16), true,
             [=](const Place& p) {
               const auto there = [&](const Tensor& x) { return x.to(p.device); };
               return call("float8_grouped_mm", there(std::get<0>(a)), there(std::get<1>(a)),
                           there(std::get<0>(b)), there(std::get<1>(b)), there(ends), number_of(p.type), fast,
                           emulate || p.device.is_cpu());
             }});
    }
}

}  // namespace

void check_float8(Checks& checks, c10::Device device) {
  check_quantize(checks, device);
  check_shared_scale(checks, device);
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    for (const at::ScalarType format : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
      check_product(checks, device, kWhole, kWhole, format, type, 1040);
      check_product(checks, device, kRow, kRow, format, type, 1040);
      check_product(checks, device, kRow, kWhole, format, type, 1040);
    }
    // Scales of squares with and without zero padding, and of one piece per row.
    for (const std::int64_t inner : {1024, 640, 128}) {
      check_product(checks, device, kPiece, kSquare, at::kFloat8_e4m3fn, type, inner);
      check_product(checks, device, kSquare, kPiece, at::kFloat8_e4m3fn, type, inner);
      check_product(checks, device, kPiece, kPiece, at::kFloat8_e4m3fn, type, inner);
    }
    check_product(checks, device, kWhole, kPiece, at::kFloat8_e4m3fn, type, 1024);
    check_product(checks, device, kRow, kSquare, at::kFloat8_e4m3fn, type, 1024);
  }
  const Tensor ends = at::tensor({0, 130, 131, 131, 400, 401, 640, 683}, at::kInt);
  check_quantized_experts(checks, device, ends);
  check_blocks_of_experts(checks, device, ends);
  check_nvfp4(checks, device);
  check_grouped_product_of_blocks(checks, device);
  check_grouped_product(checks, device, ends, 1040, 208);
  check_grouped_product(checks, device, ends, 256, 2048);
}

}  // namespace rondo

// Kernels on more than 2^31 elements, where an index of 32 bits is wrong. Memory is reserved and
// not backed, and only the blocks at both ends of a launch run. So a case takes milliseconds, and
// memory for the pages that it touches. The last elements must have the bits that the same kernel
// gives them alone.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <sys/mman.h>

#include <catch2/catch_test_macros.hpp>

#include "ops/adamw/adamw_cuda.h"
#include "ops/add_widened/add_widened_cuda.h"
#include "ops/cross_entropy/cross_entropy_cuda.h"
#include "ops/float8/float8_cuda.h"
#include "ops/float8/nvfp4_cuda.h"
#include "ops/grouped_sum/grouped_sum_cuda.h"
#include "ops/latent_keys/latent_keys_cuda.h"
#include "ops/muon/muon_cuda.h"
#include "ops/normal_draws/normal_draws_cuda.h"
#include "ops/permute_tokens/permute_tokens_cuda.h"
#include "ops/rms_norm/rms_norm_cuda.h"
#include "ops/rope/rope_cuda.h"
#include "ops/sums_of_squares/sums_of_squares_cuda.h"
#include "ops/swiglu/clamped_swiglu_cuda.h"
#include "ops/swiglu/swiglu_cuda.h"
#include "tests/cuda/addresses.h"
#include "tests/cuda/int_tensors.h"
#include "tests/ptx/program.h"

namespace rondo::ptx {
namespace {

using at::Tensor;
using cuda::Element;

constexpr std::int64_t kMany = std::int64_t{1} << 31, kWidth = 4096, kManyRows = kMany / kWidth + 9;

class EndsOnly {
 public:
  EndsOnly() { run_ends_only(true); }
  ~EndsOnly() { run_ends_only(false); }
  EndsOnly(const EndsOnly&) = delete;
  EndsOnly& operator=(const EndsOnly&) = delete;
};

// Returns zeros, whose last `random` elements are random.
Tensor reserved(at::IntArrayRef sizes, at::ScalarType type, std::int64_t random = 0) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  const std::size_t bytes = static_cast<std::size_t>(count) * c10::elementSize(type);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, /*offset=*/0);
  REQUIRE(memory != MAP_FAILED);
  const Tensor x = at::from_blob(
      memory, sizes, [bytes](void* at) { munmap(at, bytes); }, at::TensorOptions(type));
  if (random > 0) x.view({-1}).narrow(0, count - random, random).copy_(at::randn({random}));
  return x;
}
Tensor many(at::ScalarType type = at::kBFloat16) { return reserved({kManyRows, kWidth}, type, kWidth); }
Tensor last(const Tensor& x, std::int64_t count = kWidth) {
  return x.view({-1}).narrow(0, x.numel() - count, count);
}
Tensor alone(const Tensor& x, std::int64_t count = kWidth) { return last(x, count).clone(); }
// Returns whether the last elements of the first are those of the second.
bool ends_with(const Tensor& x, const Tensor& end, std::int64_t count = kWidth) {
  return at::equal(last(x, count), last(end, count));
}

std::int64_t* longs(const Tensor& x) { return x.mutable_data_ptr<std::int64_t>(); }

constexpr std::int64_t kBlock = 2048;  // elements of a block of several kernels

}  // namespace

TEST_CASE("elementwise kernels index more than 2^31 elements") {
  const EndsOnly ends;
  const Tensor gate = many(), up = many(), y = reserved({kManyRows, kWidth}, at::kBFloat16),
               other = reserved({kManyRows, kWidth}, at::kBFloat16);
  const Tensor one_gate = alone(gate), one_up = alone(up), one_y = at::empty_like(one_gate),
               one_other = at::empty_like(one_gate);
  const auto rows_of = [](std::int64_t rows, const Tensor& g, const Tensor& u) {
    return cuda::SwigluRows{rows, kWidth, Element::bf16, memory(g), kWidth, memory(u), kWidth};
  };
  cuda::swiglu(rows_of(kManyRows, gate, up), memory(y), nullptr);
  cuda::swiglu(rows_of(1, one_gate, one_up), memory(one_y), nullptr);
  CHECK(ends_with(y, one_y, kBlock));
  auto counted = rows_of(kManyRows, gate, up);
  const Tensor count = at::full({}, kManyRows - 1, at::kInt);
  counted.count = data(count);
  cuda::swiglu(counted, memory(y), nullptr);
  CHECK(last(y, kBlock).eq(0).all().item<bool>());
  cuda::swiglu_backward(rows_of(kManyRows, gate, up), memory(up), memory(y), memory(other), kWidth, nullptr);
  cuda::swiglu_backward(rows_of(1, one_gate, one_up), memory(one_up), memory(one_y), memory(one_other),
                        kWidth, nullptr);
  CHECK(ends_with(y, one_y, kBlock));
  CHECK(ends_with(other, one_other, kBlock));

  const auto pairs_of = [](std::int64_t rows, const Tensor& gate_up) {
    return cuda::ClampedPairs{rows, kWidth / 2, Element::bf16, memory(gate_up), nullptr, 7.0f, 1.702f};
  };
  cuda::clamped_swiglu(pairs_of(kManyRows, gate), memory(y), nullptr);
  cuda::clamped_swiglu(pairs_of(1, one_gate), memory(one_y), nullptr);
  CHECK(at::equal(y.view({-1}).narrow(0, y.numel() / 2 - kBlock, kBlock), one_y.narrow(0, 0, kBlock)));

  cuda::add_widened(memory(gate), Element::bf16, memory(up), Element::bf16, gate.numel(), nullptr);
  cuda::add_widened(memory(one_gate), Element::bf16, memory(one_up), Element::bf16, kWidth, nullptr);
  CHECK(ends_with(gate, one_gate, kBlock));

  const Tensor drawn = reserved({kMany + 512}, at::kBFloat16), one_drawn = at::empty({512}, at::kBFloat16);
  cuda::draw(Element::bf16, {0.02, 0.0, 1.0, 42, 7}, 100, drawn.numel(), memory(drawn), nullptr);
  cuda::draw(Element::bf16, {0.02, 0.0, 1.0, 42, 7}, 100 + kMany, 512, memory(one_drawn), nullptr);
  CHECK(ends_with(drawn, one_drawn, 512));
}

TEST_CASE("kernels of rows index more than 2^31 elements") {
  const EndsOnly ends;
  const Tensor x = many(), y = reserved({kManyRows, kWidth}, at::kBFloat16),
               weight = at::rand({kWidth}).to(at::kBFloat16), inverse_rms = at::empty({kManyRows});
  const Tensor one_x = alone(x), one_y = at::empty_like(one_x), one_inverse = at::empty({1});
  const auto normalize = [&](std::int64_t rows, const Tensor& from, const Tensor& to, const Tensor& inverse) {
    cuda::rms_norm({rows, kWidth, Element::bf16, Element::bf16, memory(from), kWidth, memory(weight)},
                   nullptr, nullptr, 1e-5f, memory(to), floats(inverse), nullptr);
  };
  normalize(kManyRows, x, y, inverse_rms);
  normalize(1, one_x, one_y, one_inverse);
  CHECK(ends_with(y, one_y));

  const Tensor cos = at::rand({64}), sin = at::rand({64});
  const auto rotate = [&](std::int64_t batch, const Tensor& from, const Tensor& to) {
    cuda::rope({batch, 1, 32, 128, 128, kWidth, kWidth, 128, Element::bf16, true}, memory(from), floats(cos),
               floats(sin), false, false, memory(to), nullptr);
  };
  rotate(kManyRows, x, y);
  rotate(1, one_x, one_y);
  CHECK(ends_with(y, one_y));

  constexpr std::int64_t kClasses = 128'256, kTokens = kMany / kClasses + 2;
  const Tensor logits = reserved({kTokens, kClasses}, at::kBFloat16, kClasses),
               gradients = reserved({kTokens, kClasses}, at::kBFloat16),
               labels = at::full({kTokens}, 7, at::kLong), statistics = at::empty({3, kTokens});
  const Tensor one_logits = alone(logits, kClasses), one_gradient = at::empty_like(one_logits),
               one_statistics = at::empty({3, 1}), grad = at::full({}, 0.5f);
  const auto lose = [&](std::int64_t tokens, const Tensor& from, const Tensor& three, const Tensor& to) {
    const cuda::LogitRows rows{memory(from), Element::bf16, tokens, kClasses};
    const Tensor largest = three[0], sums = three[1], of_label = three[2];
    cuda::cross_entropy_statistics(rows, longs(labels), floats(largest), floats(sums), floats(of_label),
                                   nullptr);
    cuda::cross_entropy_backward(floats(grad), rows, longs(labels), floats(largest), floats(sums), -100,
                                 memory(to), nullptr);
  };
  lose(kTokens, logits, statistics, gradients);
  lose(1, one_logits, one_statistics, one_gradient);
  CHECK(at::equal(statistics.narrow(1, kTokens - 1, 1), one_statistics));
  CHECK(ends_with(gradients, one_gradient, kClasses));

  constexpr std::int64_t kBatch = kMany / (16 * 192) + 2;
  const Tensor kv = reserved({kBatch, 16 * 256}, at::kBFloat16, 16 * 256),
               rotated = reserved({kBatch, 64}, at::kBFloat16, 64),
               k = reserved({kBatch, 16 * 192}, at::kBFloat16);
  const Tensor one_kv = alone(kv, 16 * 256), one_rotated = alone(rotated, 64),
               one_k = at::empty({16 * 192}, at::kBFloat16);
  const auto assemble = [](std::int64_t batch, const Tensor& left, const Tensor& right, const Tensor& to) {
    cuda::latent_keys({batch, 1, 16, 128, 64, 128, Element::bf16}, {memory(left), 16 * 256, 16 * 256, 256},
                      {memory(right), 64, 64, 64}, memory(to), nullptr);
  };
  assemble(kBatch, kv, rotated, k);
  assemble(1, one_kv, one_rotated, one_k);
  CHECK(ends_with(k, one_k, 16 * 192));
}

TEST_CASE("kernels of slots and runs index more than 2^31 elements") {
  const EndsOnly ends;
  const Tensor rows = many(), result = reserved({kManyRows, kWidth}, at::kBFloat16),
               order = reserved({kManyRows}, at::kLong), x = at::randn({16, kWidth}).to(at::kBFloat16);
  order[kManyRows - 1].fill_(13);
  cuda::permute_tokens(Element::bf16, memory(x), nullptr, longs(order), nullptr, nullptr, memory(result),
                       kManyRows, kWidth, 16, 1, nullptr);
  CHECK(at::equal(last(result), x[13]));

  const Tensor place = at::full({1, 1}, kManyRows - 1, at::kLong), one = at::empty({kWidth}, at::kBFloat16),
               product = at::empty({1}), expected = at::empty({1}), first = at::full({1, 1}, 0, at::kLong),
               last_row = alone(rows);
  cuda::unpermute_tokens(Element::bf16, memory(rows), memory(rows), longs(place), nullptr, nullptr, true,
                         memory(one), 1, 1, kManyRows, kWidth, nullptr);
  CHECK(at::equal(one, last(rows) + last(rows)));
  cuda::dot_rows(Element::bf16, memory(rows), memory(x), longs(place), nullptr, memory(product), 1, 1,
                 kManyRows, kWidth, nullptr);
  cuda::dot_rows(Element::bf16, memory(last_row), memory(x), longs(first), nullptr, memory(expected), 1, 1, 1,
                 kWidth, nullptr);
  CHECK(at::equal(product, expected));

  constexpr std::int64_t kElements = kMany / 2 + kBlock;
  const Tensor pieces = reserved({2, kElements}, at::kBFloat16, kBlock),
               sum = reserved({kElements}, at::kBFloat16);
  cuda::sum_pieces(Element::bf16, memory(pieces), memory(sum), 2, kElements, nullptr);
  CHECK(ends_with(sum, last(pieces, kBlock), kBlock));

  const Tensor run_end = at::full({1}, kManyRows, at::kInt), bias = at::randn({kWidth}).to(at::kBFloat16);
  cuda::grouped_add({kManyRows, kWidth, 1, Element::bf16, memory(rows), data(run_end)}, memory(bias),
                    memory(result), nullptr);
  CHECK(at::equal(last(result), last(rows) + bias));
}

TEST_CASE("kernels of the optimizer and of float8 index more than 2^31 elements") {
  const EndsOnly ends;
  constexpr std::int64_t kCount = kMany + 20'000, kOfChunk = kCount % 16'384;
  const auto tensor = [] { return reserved({kCount}, at::kBFloat16, 20'000); };
  const Tensor parameter = tensor(), average = tensor(), square = tensor(), gradient = tensor();
  last(square, 20'000).square_();
  const Tensor one_parameter = alone(parameter, kOfChunk), one_average = alone(average, kOfChunk),
               one_square = alone(square, kOfChunk), one_gradient = alone(gradient, kOfChunk);
  const Tensor two = at::full({}, 2.0f), zero = at::full({}, 0.0f);
  const auto update = [&](const Tensor& p, const Tensor& m, const Tensor& v, const Tensor& g) {
    const std::vector<cuda::UpdatedTensor> updated = {
        {memory(p), memory(m), memory(v), memory(g), p.numel()}};
    cuda::adamw({Element::bf16, Element::bf16, Element::bf16}, updated,
                {floats(two), floats(two), floats(two), floats(zero)}, AdamWOptions(), nullptr);
  };
  update(parameter, average, square, gradient);
  update(one_parameter, one_average, one_square, one_gradient);
  CHECK(ends_with(parameter, one_parameter, kOfChunk));
  CHECK(ends_with(square, one_square, kOfChunk));

  const auto accumulate = [&](const Tensor& m, const Tensor& g, const Tensor& u) {
    const std::vector<cuda::MomentumTensor> tensors = {{memory(m), memory(g), memory(u), m.numel()}};
    cuda::muon_momentum({Element::bf16, Element::bf16, Element::bf16}, tensors,
                        {floats(two), floats(zero), floats(two)}, MuonOptions(), nullptr);
  };
  accumulate(average, gradient, square);
  accumulate(one_average, one_gradient, one_square);
  CHECK(ends_with(average, one_average, kOfChunk));
  CHECK(ends_with(square, one_square, kOfChunk));
  const auto apply = [&](const Tensor& p, const Tensor& u) {
    const std::vector<cuda::AppliedTensor> tensors = {{memory(p), memory(u), p.numel(), 0.7}};
    cuda::muon_apply({Element::bf16, Element::bf16}, tensors, {floats(two), floats(zero), floats(two)}, 0.1,
                     nullptr);
  };
  apply(parameter, gradient);
  apply(one_parameter, one_gradient);
  CHECK(ends_with(parameter, one_parameter, kOfChunk));

  const auto sum_of = [](const Tensor& x) {
    const Tensor chunks = at::full({x.numel() / 16'384 + 1}, 0, at::kDouble),
                 sum = at::empty({1}, at::kDouble);
    const std::vector<cuda::SquaredTensor> squared = {{memory(x), x.numel(), 0}};
    cuda::sums_of_squares(Element::bf16, squared, chunks.mutable_data_ptr<double>(),
                          sum.mutable_data_ptr<double>(), nullptr);
    return sum;
  };
  CHECK(at::equal(sum_of(gradient), sum_of(alone(gradient, 20'000))));

  // The first block takes the last tile of 128 x 128.
  constexpr std::int64_t kTiled = kMany / kWidth + 128;
  const Tensor x = reserved({kTiled, kWidth}, at::kBFloat16, 128 * kWidth), one_x = alone(x, 128 * kWidth);
  const auto quantize = [](const Tensor& from, std::int64_t rows) {
    const Tensor values = reserved({rows, kWidth}, at::kByte),
                 scales = reserved({rows, kWidth / 128}, at::kFloat);
    cuda::quantize_float8({rows, kWidth, Element::bf16, memory(from), true, kWidth}, cuda::Float8Share::piece,
                          {values.mutable_data_ptr<std::uint8_t>(), floats(scales), kWidth / 128, 1,
                           float8::Format::e4m3, true},
                          nullptr, nullptr);
    return std::pair(values, scales);
  };
  const auto [values, scales] = quantize(x, kTiled);
  const auto [one_values, one_scales] = quantize(one_x, 128);
  CHECK(ends_with(values, one_values, 128));
  CHECK(ends_with(scales, one_scales, 1));

  const Tensor wide = reserved({kManyRows, kWidth}, at::kFloat, kWidth), one_wide = alone(wide),
               largest = at::full({}, 4.0f);
  const auto to_nvfp4 = [&](const Tensor& from, std::int64_t rows) {
    const Tensor numbers = reserved({rows, kWidth}, at::kByte),
                 of_blocks = reserved({rows, kWidth / 16}, at::kFloat);
    cuda::quantize_nvfp4({floats(from), rows, kWidth, false, floats(largest), nullptr, 0,
                          numbers.mutable_data_ptr<std::uint8_t>(), floats(of_blocks)},
                         nullptr);
    return std::pair(numbers, of_blocks);
  };
  const auto [numbers, of_blocks] = to_nvfp4(wide, kManyRows);
  const auto [one_numbers, one_of_blocks] = to_nvfp4(one_wide, 1);
  CHECK(ends_with(numbers, one_numbers));
  CHECK(ends_with(of_blocks, one_of_blocks, kWidth / 16));
}

}  // namespace rondo::ptx

// The rate at which a kernel would move its bytes if nothing but the issue of instructions limited
// it, beside the rate that an H200 measured (docs/results/gpu_check_2026-11-26.md and
// gpu_models_2026-11-26.md). Instructions are those of PTX that warps execute, without moves, on
// rows as wide as in a step. A division or a root of PTX is several machine instructions, so the
// ceilings are too high where kernels have many.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <functional>

#include "ops/adamw/adamw_cuda.h"
#include "ops/add_widened/add_widened_cuda.h"
#include "ops/cross_entropy/cross_entropy_cuda.h"
#include "ops/latent_keys/latent_keys_cuda.h"
#include "ops/rms_norm/rms_norm_cuda.h"
#include "ops/rope/rope_cuda.h"
#include "ops/sums_of_squares/sums_of_squares_cuda.h"
#include "ops/swiglu/clamped_swiglu_cuda.h"
#include "ops/swiglu/swiglu_cuda.h"
#include "tests/cuda/addresses.h"
#include "tests/cuda/element_of.h"
#include "tests/ptx/program.h"

namespace rondo::ptx {
namespace {

using at::Tensor;

// An H200 at its highest clock.
constexpr double kClock = 1.98e9, kMultiprocessors = 132, kIssuedAClock = 4;

constexpr std::int64_t kRows = 8;

Tensor bf16(at::IntArrayRef sizes) { return at::randn(sizes).to(at::kBFloat16); }
std::int64_t bytes_of(std::initializer_list<Tensor> tensors) {
  std::int64_t bytes = 0;
  for (const Tensor& x : tensors) bytes += static_cast<std::int64_t>(x.nbytes());
  return bytes;
}

// Each returns the bytes that the op has to read and write.

std::int64_t adamw(at::ScalarType type) {
  constexpr std::int64_t kCount = 32'768;
  const auto draw = [&] { return at::rand({kCount}).to(type); };
  const Tensor parameter = draw(), average = draw(), square = draw(), gradient = draw();
  const Tensor step = at::full({}, 5.0f), lr = at::full({}, 3e-3f), one = at::full({}, 1.0f),
               zero = at::full({}, 0.0f);
  const std::vector<cuda::UpdatedTensor> updated = {
      {memory(parameter), memory(average), memory(square), memory(gradient), kCount}};
  const cuda::Element element = element_of(parameter);
  cuda::adamw({element, element, element}, updated, {floats(step), floats(lr), floats(one), floats(zero)},
              AdamWOptions(), nullptr);
  return 2 * bytes_of({parameter, average, square}) + bytes_of({gradient});
}

std::int64_t add_widened() {
  const Tensor sum = at::randn({32'768}), x = bf16({32'768});
  cuda::add_widened(memory(sum), cuda::Element::f32, memory(x), cuda::Element::bf16, 32'768, nullptr);
  return 2 * bytes_of({sum}) + bytes_of({x});
}

std::int64_t sums_of_squares(at::ScalarType type) {
  const Tensor x = at::randn({65'536}).to(type), chunks = at::empty({4}, at::kDouble),
               sum = at::empty({1}, at::kDouble);
  const std::vector<cuda::SquaredTensor> squared = {{memory(x), x.numel(), 0}};
  cuda::sums_of_squares(element_of(x), squared, chunks.mutable_data_ptr<double>(),
                        sum.mutable_data_ptr<double>(), nullptr);
  return bytes_of({x});
}

std::int64_t rms_norm() {
  const Tensor x = bf16({kRows, 4096}), weight = bf16({4096}), y = at::empty_like(x),
               inverse_rms = at::rand({kRows, 1});
  const cuda::RmsNormRows of{kRows,     4096, cuda::Element::bf16, cuda::Element::bf16,
                             memory(x), 4096, memory(weight)};
  cuda::rms_norm(of, nullptr, nullptr, 1e-5f, memory(y), floats(inverse_rms), nullptr);
  return bytes_of({x, y});
}

std::int64_t swiglu(bool backward) {
  const Tensor gate = bf16({kRows, 14'336}), up = bf16({kRows, 14'336}), grad = bf16({kRows, 14'336}),
               y = at::empty_like(up), grad_up = at::empty_like(up);
  const cuda::SwigluRows of{kRows, 14'336, cuda::Element::bf16, memory(gate), 14'336, memory(up), 14'336};
  if (!backward) {
    cuda::swiglu(of, memory(y), nullptr);
    return bytes_of({gate, up, y});
  }
  cuda::swiglu_backward(of, memory(grad), memory(y), memory(grad_up), 14'336, nullptr);
  return bytes_of({gate, up, grad, y, grad_up});
}

// Each thread also reads the count.
std::int64_t clamped_swiglu(bool backward) {
  const Tensor gate_up = bf16({kRows, 2 * 2880}), grad = bf16({kRows, 2880}), to = at::empty_like(gate_up);
  const Tensor count = at::full({}, kRows, at::kInt);
  const cuda::ClampedPairs in{
      kRows, 2880, cuda::Element::bf16, memory(gate_up), count.const_data_ptr<std::int32_t>(), 7.0f, 1.702f};
  if (!backward) {
    cuda::clamped_swiglu(in, memory(to), nullptr);
    return bytes_of({gate_up, grad});
  }
  cuda::clamped_swiglu_backward(in, memory(grad), memory(to), nullptr);
  return bytes_of({gate_up, grad, to});
}

std::int64_t rope() {
  const Tensor x = bf16({1, kRows, 32, 128}), y = at::empty_like(x), cos = at::rand({1, kRows, 1, 64}),
               sin = at::rand({1, kRows, 1, 64});
  cuda::rope({1, kRows, 32, 128, 128, x.stride(0), x.stride(1), x.stride(2), cuda::Element::bf16, true},
             memory(x), floats(cos), floats(sin), false, false, memory(y), nullptr);
  return bytes_of({x, y});
}

std::int64_t cross_entropy(bool backward) {
  const std::int64_t classes = 128'256;
  const Tensor logits = bf16({2, classes}), labels = at::randint(classes, {2}, at::kLong),
               largest = at::full({2}, 4.0f), sum = at::full({2}, 1e5f), of_label = at::empty({2}),
               grad = at::full({}, 0.5f), to = at::empty_like(logits);
  const cuda::LogitRows rows{memory(logits), cuda::Element::bf16, 2, classes};
  const auto* const places = labels.const_data_ptr<std::int64_t>();
  if (!backward) {
    cuda::cross_entropy_statistics(rows, places, floats(largest), floats(sum), floats(of_label), nullptr);
    return bytes_of({logits});
  }
  cuda::cross_entropy_backward(floats(grad), rows, places, floats(largest), floats(sum), -100, memory(to),
                               nullptr);
  return bytes_of({logits, to});
}

std::int64_t latent_keys() {
  const Tensor kv = bf16({1, kRows, 16, 256}), shared = bf16({1, kRows, 1, 64}),
               k = at::empty({1, kRows, 16, 192}, at::kBFloat16);
  const auto strided = [](const Tensor& x) {
    return cuda::StridedHeads{memory(x), x.stride(0), x.stride(1), x.stride(2)};
  };
  cuda::latent_keys({1, kRows, 16, 128, 64, 128, cuda::Element::bf16}, strided(kv), strided(shared),
                    memory(k), nullptr);
  return bytes_of({kv}) / 2 + bytes_of({shared, k});
}

struct Ceiling {
  const char* name;
  std::function<std::int64_t()> run;
  double measured;         // TB/s
  double issue, accessed;  // as the first case prints them; a change of a kernel's code changes them
};
const Ceiling kCeilings[] = {
    {"AdamW, bf16", [] { return adamw(at::kBFloat16); }, 4.04, 18.9, 1.02},
    {"AdamW, fp32", [] { return adamw(at::kFloat); }, 3.75, 49.4, 1.01},
    {"add_widened, bf16 to fp32", add_widened, 3.83, 72.3, 1.00},
    {"sums of squares, bf16", [] { return sums_of_squares(at::kBFloat16); }, 3.44, 17.2, 1.00},
    {"sums of squares, fp32", [] { return sums_of_squares(at::kFloat); }, 4.28, 41.5, 1.00},
    {"rms_norm", rms_norm, 2.88, 8.8, 1.50},
    {"swiglu", [] { return swiglu(false); }, 4.14, 9.6, 1.00},
    {"swiglu_backward", [] { return swiglu(true); }, 4.21, 11.4, 1.00},
    {"clamped_swiglu", [] { return clamped_swiglu(false); }, 3.85, 6.7, 1.08},
    {"clamped_swiglu_backward", [] { return clamped_swiglu(true); }, 3.67, 7.9, 1.05},
    {"rotation of the queries", rope, 3.08, 10.2, 2.00},
    {"cross_entropy", [] { return cross_entropy(false); }, 2.11, 2.8, 1.00},
    {"cross_entropy_backward", [] { return cross_entropy(true); }, 3.90, 7.4, 1.02},
    {"latent_keys", latent_keys, 2.62, 18.4, 1.19},
};

Work all_work() {
  Work all;
  for (const auto& [name, work] : work_of_kernels()) {
    all.instructions += work.instructions;
    all.global_bytes += work.global_bytes;
  }
  return all;
}

struct Rates {
  double issue;     // TB/s of the bytes that the op has to move
  double accessed;  // bytes that lanes access, over these
};
Rates rates_of(const Ceiling& c) {
  at::manual_seed(3);
  const Work before = all_work();
  const auto bytes = static_cast<double>(c.run());
  const Work after = all_work();
  const auto issued = static_cast<double>(after.instructions - before.instructions),
             accessed = static_cast<double>(after.global_bytes - before.global_bytes);
  return {bytes / issued * kMultiprocessors * kIssuedAClock * kClock / 1e12, accessed / bytes};
}

}  // namespace

TEST_CASE("the ceilings of kernels are printed", "[.][ceilings]") {
  std::printf("| kernel | by issue, TB/s | measured, TB/s | accessed / moved |\n|---|---|---|---|\n");
  for (const Ceiling& c : kCeilings) {
    const Rates rates = rates_of(c);
    std::printf("| %s | %.1f | %.2f | %.2f |\n", c.name, rates.issue, c.measured, rates.accessed);
  }
}

TEST_CASE("no kernel was measured faster than its instructions allow, and none has more than it had") {
  for (const Ceiling& c : kCeilings) {
    INFO(c.name);
    const Rates rates = rates_of(c);
    CHECK(rates.issue > c.measured);
    CHECK(rates.issue > 0.98 * c.issue);
    CHECK(rates.accessed > 0.999);
    CHECK(rates.accessed < 1.01 * c.accessed);
  }
}

}  // namespace rondo::ptx

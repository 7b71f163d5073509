// An op wakes threads at most once, and not at all for work that one thread does as fast.
#include "tests/ops/thread_wakeups.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <functional>

#include "tests/ops/call_op.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

std::int64_t wakeups_of(const std::function<void()>& run) {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const std::int64_t before = thread_wakeups();
  run();
  const std::int64_t made = thread_wakeups() - before;
  at::set_num_threads(threads);
  return made;
}

// Ops over rows of 256 columns, and of 2048 classes.
struct Rows {
  Tensor x, weight = at::ones({256}), sums, logits, labels, heads, cos, sin;

  explicit Rows(std::int64_t rows)
      : x(at::randn({rows, 256})),
        sums(at::ones({rows, 1})),
        logits(at::randn({rows / 16 + 1, 2048})),
        labels(at::randint(2048, {rows / 16 + 1}, at::kLong)),
        heads(x.view({1, rows, 16, 16})),
        cos(at::ones({1, rows, 1, 8})),
        sin(at::zeros({1, rows, 1, 8})) {}

  std::vector<std::function<void()>> ops() const {
    return {[this] { call("rms_norm", x, weight, 1e-5); },
            [this] { call("swiglu", x, x); },
            [this] { call("swiglu_backward", x, x, x); },
            [this] { call("rope", heads, cos, sin, false, false); },
            [this] { call("cross_entropy", logits, labels, std::int64_t{-100}); },
            [this] {
              const Tensor of_rows = at::ones({logits.size(0)});
              call("cross_entropy_backward", at::ones({}), logits, labels, of_rows, of_rows,
                   std::int64_t{-100});
            }};
  }
};

}  // namespace

TEST_CASE("an op over few rows wakes no thread, and an op over many rows wakes them once") {
  const Rows few(32), many(4096);
  for (const auto& op : few.ops()) CHECK(wakeups_of(op) == 0);
  for (const auto& op : many.ops()) CHECK(wakeups_of(op) == 1);
}

TEST_CASE("optimizers' updates and a gradient's norm wake threads once for all parameters") {
  Tensors parameters, moments, squares, gradients;
  for (int i = 0; i < 12; ++i)
    for (Tensors* const list : {&parameters, &moments, &squares, &gradients})
      list->push_back(at::ones({i % 3 == 0 ? 256 : 100'000}));
  const Tensor one = at::ones({}), zero = at::zeros({});
  const auto update = [&] {
    call("adamw_", parameters, moments, squares, gradients, one, one, one, zero, 0.9, 0.95, 1e-8, 0.1, true);
  };
  CHECK(wakeups_of(update) == 1);
  const std::vector<std::int64_t> nearest;
  const auto accumulate = [&] {
    call("muon_momentum_", moments, gradients, one, zero, one, nearest, 0.95, true,
         static_cast<std::int64_t>(at::kFloat));
  };
  const std::vector<double> scales(parameters.size(), 0.2);
  CHECK(wakeups_of(accumulate) == 1);
  CHECK(wakeups_of(
            [&] { call("muon_apply_", parameters, gradients, one, zero, one, nearest, 0.1, scales); }) == 1);
  CHECK(wakeups_of([&] { call("sums_of_squares", gradients); }) == 1);
  gradients.resize(1);  // 256 elements
  CHECK(wakeups_of([&] { call("sums_of_squares", gradients); }) == 0);
}

}  // namespace rondo

// The ops of chunked losses against ATen's product and cross-entropy, and shards of a vocabulary
// against the whole.
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <cstring>

#include "tests/ops/call_op.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kLabels = 13, kHidden = 24, kClasses = 77, kIgnored = -100;

struct Problem {
  Tensor h, weight, labels, gradient;

  explicit Problem(at::ScalarType dtype) {
    at::manual_seed(5);
    h = at::randn({kLabels, kHidden}, at::kDouble).to(dtype);
    weight = at::randn({kClasses, kHidden}, at::kDouble).to(dtype);
    labels = at::randint(kClasses, {kLabels}, at::kLong);
    for (const std::int64_t row : {std::int64_t{0}, std::int64_t{7}}) labels[row] = kIgnored;
    gradient = at::full({}, 0.125, dtype == at::kDouble ? at::kDouble : at::kFloat);
  }
  Tensors run(std::int64_t chunk_rows) const {
    return call("linear_cross_entropy", h, weight, labels, gradient, kIgnored, chunk_rows);
  }
};

// Returns the sum of the losses, grad_h and grad_weight. Logits are rounded to the dtype of h, as
// in a step.
Tensors unfused(const Problem& p) {
  const Tensor h = p.h.detach().clone().requires_grad_(true);
  const Tensor weight = p.weight.detach().clone().requires_grad_(true);
  const Tensor logits = at::linear(h, weight).to(p.gradient.scalar_type());
  const Tensor sum = at::cross_entropy_loss(logits, p.labels, {}, at::Reduction::Sum, kIgnored);
  const Tensors gradients = torch::autograd::grad({sum}, {h, weight}, {p.gradient});
  return {sum.detach(), gradients[0], gradients[1]};
}

bool close(const Tensor& a, const Tensor& b, double tolerance) {
  const Tensor difference = (a.to(at::kDouble) - b.to(at::kDouble)).abs();
  return difference.max().item<double>() <= tolerance * (1 + b.to(at::kDouble).abs().max().item<double>());
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

TEST_CASE("losses and gradients in chunks equal those of the whole product and cross-entropy") {
  const auto [dtype, tolerance] =
      GENERATE(std::pair{at::kDouble, 1e-13}, std::pair{at::kFloat, 1e-6}, std::pair{at::kBFloat16, 4e-3});
  const std::int64_t chunk_rows = GENERATE(1, 2, 5, 12, 13, 100);
  INFO(c10::toString(dtype) << ", " << chunk_rows << " rows at a time");
  const Problem p(dtype);
  const Tensors expected = unfused(p), got = p.run(chunk_rows);
  CHECK(close(got[0].sum(), expected[0], dtype == at::kBFloat16 ? 1e-6 : tolerance));
  CHECK(close(got[1], expected[1], tolerance));
  CHECK(close(got[2], expected[2], tolerance));
  CHECK(got[1].scalar_type() == dtype);
  CHECK(got[2].scalar_type() == p.gradient.scalar_type());
  CHECK(got[3].size(0) == std::min(chunk_rows, kLabels));
  const Tensors losses = call("linear_cross_entropy_losses", p.h, p.weight, p.labels, kIgnored, chunk_rows);
  CHECK(same_bits(losses[0], got[0]));
}

TEST_CASE(
    "autograd returns the op's gradients, computed in the forward or the backward, and without gradients the "
    "sum "
    "is the same") {
  const Problem p(GENERATE(at::kFloat, at::kBFloat16));
  const HeadGradients when = GENERATE(HeadGradients::in_forward, HeadGradients::in_backward);
  const Tensors expected = p.run(5);
  const Tensor h = p.h.detach().clone().requires_grad_(true);
  const Tensor weight = p.weight.detach().clone().requires_grad_(true);
  const auto sum_of_losses = [&] {
    return linear_cross_entropy_of(h, weight, p.labels, p.gradient, kIgnored, 5, when);
  };
  const Tensor sum = sum_of_losses();
  CHECK(same_bits(sum, expected[0].sum()));
  const Tensors gradients = torch::autograd::grad({sum}, {h, weight}, {p.gradient});
  CHECK(same_bits(gradients[0], expected[1]));
  CHECK(same_bits(gradients[1], expected[2].to(weight.scalar_type())));
  const c10::NoGradGuard no_gradients;
  CHECK(same_bits(sum_of_losses(), sum));
}

TEST_CASE("the gradient of a bf16 weight is an unrounded f32 sum of rounded gradients of logits") {
  const Problem p(at::kBFloat16);
  const Tensor logits = at::mm(p.h, p.weight.t()).to(at::kFloat);
  Tensor of_logits = at::softmax(logits, 1);
  for (std::int64_t row = 0; row < kLabels; ++row) {
    const auto label = p.labels[row].item<std::int64_t>();
    if (label == kIgnored) {
      of_logits[row].zero_();
    } else {
      of_logits[row][label] -= 1;
    }
  }
  of_logits = (of_logits * 0.125).to(at::kBFloat16).to(at::kFloat);
  const Tensor expected = at::mm(of_logits.t(), p.h.to(at::kFloat));
  // Two roundings of a gradient to bf16 may differ if it is halfway between two numbers.
  CHECK(close(p.run(5)[2], expected, 1e-3));
  const Tensor got = p.run(5)[2];
  CHECK_FALSE(same_bits(got, got.to(at::kBFloat16).to(at::kFloat)));
}

TEST_CASE("rows without a label have no loss and no gradient, even if all rows are such") {
  Problem p(GENERATE(at::kFloat, at::kBFloat16));
  p.labels.fill_(kIgnored);
  const Tensors got = p.run(5);
  for (int i = 0; i < 3; ++i)
    CHECK(same_bits(got[static_cast<std::size_t>(i)], at::zeros_like(got[static_cast<std::size_t>(i)])));
}

TEST_CASE("a batch may have one row") {
  Problem p(at::kFloat);
  p.h = p.h.narrow(0, 1, 1).contiguous();
  p.labels = p.labels.narrow(0, 1, 1).contiguous();
  const Tensors expected = unfused(p), got = p.run(4);
  CHECK(close(got[0].sum(), expected[0], 1e-6));
  CHECK(close(got[2], expected[2], 1e-6));
}

TEST_CASE("logits far from zero neither overflow nor vanish") {
  Problem p(at::kFloat);
  p.h *= 300;
  const Tensors expected = unfused(p), got = p.run(5);
  CHECK(std::isfinite(got[0].sum().item<float>()));
  CHECK(close(got[0].sum(), expected[0], 1e-6));
  CHECK(close(got[1], expected[1], 1e-5));
}

TEST_CASE("an invalid label or a nan weight makes the loss of chunks non-finite") {
  Problem p(at::kFloat);
  const std::int64_t label = GENERATE(kClasses, std::int64_t{-1}, std::int64_t{1} << 40);
  p.labels[3] = label;
  CHECK(std::isnan(p.run(5)[0][3].item<float>()));
  Problem broken(at::kFloat);
  broken.weight[4][2] = GENERATE(NAN, INFINITY);
  const Tensors got = broken.run(5);
  CHECK_FALSE(std::isfinite(got[0].sum().item<float>()));
  CHECK_FALSE(std::isfinite(got[2].sum().item<float>()));
}

// The operands that ranks exchange between the two ops, as in parallel/tensor_parallel.cpp.
struct Shard {
  Tensor weight, place, elsewhere, largest, sum, logit;
};

Tensor column(const Tensor& x) { return x.reshape({-1, 1}).contiguous(); }

TEST_CASE("shards of a vocabulary that exchange maxima and sums have the losses and gradients of the whole") {
  const auto [dtype, tolerance] =
      GENERATE(std::pair{at::kDouble, 1e-13}, std::pair{at::kFloat, 2e-6}, std::pair{at::kBFloat16, 8e-3});
  const std::int64_t chunk_rows = GENERATE(1, 5, 13);
  const Problem p(dtype);
  const Tensors whole = p.run(13);
  std::vector<Shard> shards;
  Tensor largest;
  for (std::int64_t first = 0; first < kClasses;) {
    const std::int64_t count = first == 0 ? 30 : kClasses - first;
    Shard s;
    s.weight = p.weight.narrow(0, first, count).contiguous();
    s.elsewhere = (p.labels < first).bitwise_or(p.labels >= first + count);
    s.place = column((p.labels - first).masked_fill(s.elsewhere, 0));
    const Tensors made = call("linear_cross_entropy_statistics", p.h, s.weight, s.place, chunk_rows);
    s.largest = made[0], s.sum = made[1], s.logit = made[2];
    largest = largest.defined() ? at::maximum(largest, s.largest) : s.largest;
    shards.push_back(s);
    first += count;
  }
  Tensor sum = at::zeros_like(largest), of_label = at::zeros_like(largest);
  for (const Shard& s : shards) {
    sum += s.sum * at::exp(s.largest - largest);
    of_label += (s.logit.reshape(-1) - largest).masked_fill(s.elsewhere, 0);
  }
  const Tensor counts = p.labels.ne(kIgnored).to(largest.scalar_type());
  CHECK(close((at::log(sum) - of_label) * counts, whole[0], tolerance));
  Tensor grad_h = at::zeros({kLabels, kHidden}, at::kDouble);
  Tensors grad_weights;
  for (const Shard& s : shards) {
    const Tensor each = p.gradient * counts;
    const Tensor at_place = each * (1 - s.elsewhere.to(each.scalar_type()));
    const Tensors made = call("linear_cross_entropy_gradients", p.h, s.weight, s.place, column(largest),
                              column(sum), column(each), column(at_place), chunk_rows);
    grad_h += made[0].to(at::kDouble);
    grad_weights.push_back(made[1]);
  }
  CHECK(close(grad_h, whole[1], tolerance));
  CHECK(close(at::cat(grad_weights), whole[2], tolerance));
}

TEST_CASE("shape rules predict the results of the kernels") {
  const Problem p(GENERATE(at::kFloat, at::kBFloat16));
  const Tensor place = column(p.labels.masked_fill(p.labels.lt(0), 0)), rows = at::ones({kLabels, 1});
  const auto check = [](const Tensors& got, const Tensors& expected) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i].sizes() == expected[i].sizes());
      CHECK(got[i].strides() == expected[i].strides());
      CHECK(got[i].scalar_type() == expected[i].scalar_type());
    }
  };
  const auto meta = [](const Tensor& x) { return x.to(at::kMeta); };
  check(call("linear_cross_entropy", meta(p.h), meta(p.weight), meta(p.labels), meta(p.gradient), kIgnored,
             std::int64_t{5}),
        p.run(5));
  check(call("linear_cross_entropy_losses", meta(p.h), meta(p.weight), meta(p.labels), kIgnored,
             std::int64_t{5}),
        call("linear_cross_entropy_losses", p.h, p.weight, p.labels, kIgnored, std::int64_t{5}));
  check(call("linear_cross_entropy_statistics", meta(p.h), meta(p.weight), meta(place), std::int64_t{5}),
        call("linear_cross_entropy_statistics", p.h, p.weight, place, std::int64_t{5}));
  check(
      call("linear_cross_entropy_gradients", meta(p.h), meta(p.weight), meta(place), meta(rows), meta(rows),
           meta(rows), meta(rows), std::int64_t{5}),
      call("linear_cross_entropy_gradients", p.h, p.weight, place, rows, rows, rows, rows, std::int64_t{5}));
}

TEST_CASE("mismatched operands are refused") {
  const Problem p(at::kFloat);
  CHECK_THROWS(call("linear_cross_entropy", p.h.to(at::kBFloat16), p.weight, p.labels, p.gradient, kIgnored,
                    std::int64_t{5}));
  CHECK_THROWS(
      call("linear_cross_entropy", p.h, p.weight.t(), p.labels, p.gradient, kIgnored, std::int64_t{5}));
  CHECK_THROWS(call("linear_cross_entropy", p.h, p.weight, p.labels.narrow(0, 0, 4), p.gradient, kIgnored,
                    std::int64_t{5}));
  CHECK_THROWS(call("linear_cross_entropy", p.h, p.weight, p.labels, p.gradient, kIgnored, std::int64_t{0}));
}

}  // namespace
}  // namespace rondo

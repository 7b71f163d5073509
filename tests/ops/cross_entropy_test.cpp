// cross_entropy on the CPU against ATen's in f64, forward and backward.
#include "ops/cross_entropy/cross_entropy.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kIgnored = -100;

struct Batch {
  Tensor logits, labels, grad;

  Batch(std::int64_t rows, std::int64_t classes, at::ScalarType dtype)
      : logits((at::randn({rows, classes}, at::kDouble) * 3).to(dtype)),
        labels(at::randint(classes, {rows}, at::kLong)),
        grad(at::full({}, 0.125, dtype == at::kDouble ? at::kDouble : at::kFloat)) {}

  Tensors forward() const { return call("cross_entropy", logits, labels, kIgnored); }
  Tensors backward(const Tensors& forward) const {
    return call("cross_entropy_backward", grad, logits, labels, forward[1], forward[2], kIgnored);
  }
};

bool is_finite(const Tensor& number) { return std::isfinite(number.item<double>()); }

}  // namespace

TEST_CASE(
    "the cross-entropy and its gradient equal ATen's in f64, for rows shorter and longer than a block") {
  at::manual_seed(3);
  const at::ScalarType dtype = any_dtype();
  const std::int64_t classes = GENERATE(1, 15, 16, 77, 1024, 1025, 3001);
  INFO(dtype << ", " << classes << " classes");
  const Batch b(9, classes, dtype);
  b.labels[2] = kIgnored;
  b.labels[8] = kIgnored;
  const Tensor logits = wide(b.logits);
  const Tensor loss = at::cross_entropy_loss(logits, b.labels, {}, at::Reduction::Sum, kIgnored);
  const Tensors made = checked_call("cross_entropy", {b.logits, b.labels, kIgnored});
  check_close(made[0], loss.detach());
  check_close(made[1], std::get<0>(logits.detach().max(1)));
  loss.backward(b.grad.to(at::kDouble));
  const Tensors gradient =
      checked_call("cross_entropy_backward", {b.grad, b.logits, b.labels, made[1], made[2], kIgnored});
  check_close(gradient[0], logits.grad());
  CHECK(at::equal(gradient[0][2], at::zeros_like(gradient[0][2])));
}

TEST_CASE("autograd of the cross-entropy calls its backward, and its other results have no gradient") {
  const Batch b(5, 33, at::kBFloat16);
  const Tensor logits = b.logits.detach().clone().requires_grad_();
  const Tensor loss = cross_entropy_of(logits, b.labels, kIgnored);
  loss.backward(b.grad);
  CHECK(at::equal(logits.grad(), b.backward(b.forward())[0]));
  const Tensors all = call("cross_entropy", logits, b.labels, kIgnored);
  CHECK(all[0].requires_grad());
  CHECK_FALSE(all[1].requires_grad());
  CHECK_FALSE(all[2].requires_grad());
}

TEST_CASE("a row's statistics and gradient have the same bits for any other rows") {
  const Batch b(7, 1500, any_dtype());
  const Tensors all = b.forward();
  const Tensor gradient = b.backward(all)[0];
  for (std::int64_t row = 0; row < 7; ++row) {
    Batch one = b;
    one.logits = b.logits.narrow(0, row, 1), one.labels = b.labels.narrow(0, row, 1);
    const Tensors made = one.forward();
    CHECK(at::equal(made[1], all[1].narrow(0, row, 1)));
    CHECK(at::equal(made[2], all[2].narrow(0, row, 1)));
    CHECK(at::equal(one.backward(made)[0], gradient.narrow(0, row, 1)));
  }
}

TEST_CASE("the cross-entropy gives the same bits for any number of threads") {
  const Batch b(301, 400, GENERATE(at::kFloat, at::kBFloat16));
  check_same_with_threads([&] {
    Tensors made = b.forward();
    made.push_back(b.backward(made)[0]);
    return made;
  });
}

TEST_CASE("losses of many rows are added without loss of precision") {
  constexpr std::int64_t kRows = 100'000;
  Batch b(kRows, 3, at::kFloat);
  b.logits.copy_(b.logits.narrow(0, 0, 1).expand({kRows, 3}).clone());
  b.labels.fill_(1);
  Batch one = b;
  one.logits = b.logits.narrow(0, 0, 1), one.labels = b.labels.narrow(0, 0, 1);
  const float each = one.forward()[0].item<float>();
  CHECK(b.forward()[0].item<float>() == static_cast<float>(static_cast<double>(each) * kRows));
}

TEST_CASE("logits far from zero neither overflow nor vanish, and -inf is an impossible class") {
  const double inf = std::numeric_limits<double>::infinity();
  const double shift = GENERATE(0.0, 3e4, -3e4);
  Batch b(4, 2100, at::kFloat);
  b.logits += shift;
  b.logits.narrow(1, 0, 1030).fill_(-inf);  // a whole block, and the beginning of the next
  b.labels.fill_(2000);
  const Tensor logits = wide(b.logits);
  const Tensor loss = at::cross_entropy_loss(logits, b.labels, {}, at::Reduction::Sum, kIgnored);
  loss.backward(b.grad.to(at::kDouble));
  const Tensors made = b.forward();
  check_close(made[0], loss.detach());
  check_close(b.backward(made)[0], logits.grad());
}

TEST_CASE("an invalid label or a nan logit makes the loss non-finite") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const at::ScalarType dtype = any_dtype();
  Batch b(3, 1100, dtype);
  REQUIRE(is_finite(b.forward()[0]));
  for (const std::int64_t label : {std::int64_t{1100}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    b.labels[1] = label;
    const Tensors made = b.forward();
    CHECK(std::isnan(made[0].item<double>()));
    CHECK(b.backward(made)[0].isfinite().all().item<bool>());  // writes nothing outside the row
  }
  b.labels[1] = 0;
  for (const double logit : {nan, inf}) {
    b.logits[2][1070] = logit;
    CHECK_FALSE(is_finite(b.forward()[0]));
  }
  b.logits.fill_(-inf);
  b.logits[1][5] = nan;
  CHECK_FALSE(is_finite(b.forward()[0]));
}

TEST_CASE("rows without labels, and empty batches, have a loss of zero and no gradient") {
  const at::ScalarType dtype = any_dtype();
  Batch ignored(5, 40, dtype);
  ignored.labels.fill_(kIgnored);
  const Batch none(0, 40, dtype);
  for (const Batch* const b : {static_cast<const Batch*>(&ignored), &none}) {
    const Tensors made = b->forward();
    CHECK(made[0].item<double>() == 0);
    CHECK(at::equal(b->backward(made)[0], at::zeros_like(b->logits)));
  }
}

TEST_CASE("cross_entropy refuses mismatched operands and names them") {
  const Batch b(4, 8, at::kFloat);
  const Tensor rows = at::empty({4}), number = at::empty({});
  check_refused("but logits is Half", "cross_entropy", {b.logits.to(at::kHalf), b.labels, kIgnored});
  check_refused("logits must be contiguous rows", "cross_entropy", {rows, b.labels, kIgnored});
  check_refused("logits must be contiguous rows", "cross_entropy", {b.logits.t(), b.labels, kIgnored});
  check_refused("labels is Int [4]", "cross_entropy", {b.logits, b.labels.to(at::kInt), kIgnored});
  check_refused("labels is Long [3]", "cross_entropy", {b.logits, b.labels.narrow(0, 0, 3), kIgnored});
  check_refused("grad is Float [4]", "cross_entropy_backward",
                {rows, b.logits, b.labels, rows, rows, kIgnored});
  check_refused("largest is Float []", "cross_entropy_backward",
                {number, b.logits, b.labels, number, rows, kIgnored});
  check_refused("sum is Double [4]", "cross_entropy_backward",
                {number, b.logits, b.labels, rows, rows.to(at::kDouble), kIgnored});
}

}  // namespace rondo

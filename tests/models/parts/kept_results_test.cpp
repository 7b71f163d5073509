// Selective recomputation: what is kept, what is computed again, and what must not happen in
// between.
#include "models/parts/kept_results.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/topk.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "compiler/analysis/memory_policy.h"
#include "compiler/ops/op.h"
#include "models/parts/activation_checkpoint.h"

namespace rondo {
namespace {

using at::Tensor;

constexpr KeepsResults kKeeps = [](std::string_view op) {
  if (!ir::eager_policy_keeps(op)) return Kept::never;
  return ir::facts(op).of_linear ? Kept::every_second_call : Kept::always;
};

TEST_CASE("the first product is kept, every second one and all other ops run again") {
  const Tensor a = at::rand({3, 3}), b = at::rand({3, 3});
  const Tensor before = at::mm(a, b);
  std::vector<Tensor> made;
  const auto function = [&] {
    made = {at::mm(a, b), at::mm(a, b), at::mm(a, b), a + b, std::get<0>(at::topk(b, 2))};
    return made[0];
  };
  KeptResults kept(kKeeps);
  kept.record(function);
  const std::vector<Tensor> first = made;
  b.mul_(2);
  kept.replay(function);
  CHECK(at::equal(made[0], before));
  CHECK(at::equal(made[1], before * 2));
  CHECK(at::equal(made[2], before));
  CHECK(at::equal(made[3], a + b));
  CHECK(at::equal(made[4], first[4]));
  CHECK(made[0].data_ptr() == first[0].data_ptr());  // no copy
}

TEST_CASE("each replay hands out the kept results, and the last one lets go of them") {
  const Tensor a = at::rand({3, 3}), b = at::rand({3, 3});
  Tensor made;
  const auto function = [&] { return made = at::mm(a, b); };
  KeptResults kept(kKeeps);
  kept.record(function);
  const c10::Storage storage = made.storage();
  for (const bool again : {true, true, false}) {
    made.reset();
    CHECK(storage.use_count() == 2);  // this one, and that of the kept result
    kept.replay(function, again);
    CHECK(made.storage().data() == storage.data());
  }
  made.reset();
  CHECK(storage.use_count() == 1);
}

TEST_CASE("where nothing is kept all ops run again") {
  const Tensor a = at::ones({2, 2});
  KeptResults kept(nullptr);
  CHECK(at::equal(kept.record([&] { return at::mm(a, a); }), at::mm(a, a)));
  a.mul_(2);
  CHECK(at::equal(kept.replay([&] { return at::mm(a, a); }), at::mm(a, a)));
}

TEST_CASE("another op, fewer ops and a kept result that was overwritten are refused") {
  const Tensor a = at::ones({2, 2});
  const auto product = [&] { return at::mm(a, a); };
  const auto refused = [&](const std::function<Tensor()>& first, const std::function<Tensor()>& again,
                           const std::string& why) {
    KeptResults kept(kKeeps);
    kept.record(first);
    CHECK_THROWS_WITH(kept.replay(again), Catch::Matchers::ContainsSubstring(why));
  };
  refused(
      product, [&] { return std::get<0>(at::topk(a, 1)); }, "calls aten.topk.default, which it did not");
  refused(
      product, [&] { return at::mm(a, a) + at::mm(a, a) + at::mm(a, a); }, "calls aten.mm.default");
  refused(
      product, [&] { return a + a; }, "calls fewer ops");
  refused([&] { return at::mm(a, a).add_(1); }, product, "a kept result of aten.mm.default was overwritten");
}

// A block, two of whose products are kept.
struct FourProducts {
  Tensor x = at::rand({4, 4}).requires_grad_(true), w = at::rand({4, 4}).requires_grad_(true);
  Tensor operator()(const Tensor& in) const {
    const Tensor h = at::silu(at::mm(in, w));
    return at::mm(at::mm(h, w), at::silu(at::mm(h, h))) + in;
  }
};

// `again`: another backward follows.
std::vector<Tensor> gradients(const Tensor& output, const std::vector<Tensor>& leaves, bool again = false) {
  return torch::autograd::grad({output}, leaves, {at::ones_like(output)}, /*retain_graph=*/again);
}

TEST_CASE("a checkpointed block has the gradients of the block, with kept results or without") {
  const FourProducts block;
  const Tensor plain = block(block.x);
  const auto expected = gradients(plain, {block.x, block.w});
  for (const KeepsResults keeps : {KeepsResults(nullptr), kKeeps}) {
    const Tensor output = checkpoint(block, block.x, {block.w}, keeps);
    CHECK(at::equal(output, plain));
    const auto found = gradients(output, {block.x, block.w});
    CHECK(at::equal(found[0], expected[0]));
    CHECK(at::equal(found[1], expected[1]));
  }
}

TEST_CASE("a backward in two halves, for the input and for the weights, has the gradients of a whole one") {
  const FourProducts block;
  const auto expected = gradients(block(block.x), {block.x, block.w});
  for (const KeepsResults keeps : {KeepsResults(nullptr), kKeeps}) {
    const Tensor output = checkpoint(block, block.x, {block.w}, keeps);
    CHECK(at::equal(gradients(output, {block.x}, /*again=*/true)[0], expected[0]));
    CHECK(at::equal(gradients(output, {block.w})[0], expected[1]));
  }
}

TEST_CASE("a checkpointed block keeps results until the last half of its backward, and no longer") {
  const Tensor x = at::rand({4, 4}).requires_grad_(true), w = at::rand({4, 4}).requires_grad_(true);
  c10::Storage kept;
  const auto block = [&](const Tensor& in) {
    const Tensor product = at::mm(in, w);
    if (!kept) kept = product.storage();
    return at::silu(product);
  };
  const Tensor output = checkpoint(block, x, {w}, kKeeps);
  CHECK(kept.use_count() == 2);  // this one, and that of the kept result
  gradients(output, {x}, /*again=*/true);
  CHECK(kept.use_count() == 2);
  gradients(output, {w});
  CHECK(kept.use_count() == 1);
}

TEST_CASE("a random op of a checkpointed block draws once") {
  const Tensor x = at::ones({64}).requires_grad_(true);
  const Tensor y = checkpoint([](const Tensor& in) { return in * at::rand_like(in); }, x, {}, kKeeps);
  CHECK(at::equal(torch::autograd::grad({y}, {x}, {at::ones({64})})[0], y));
}

}  // namespace
}  // namespace rondo

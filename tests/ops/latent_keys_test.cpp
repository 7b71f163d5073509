// latent_keys on the CPU against ATen's copies and sums, bit for bit.
#include "ops/latent_keys/latent_keys.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// [2, 5, heads, width], contiguous, with gaps between the heads, or with the tokens of a head side
// by side.
Tensor heads_of(const std::string& layout, std::int64_t heads, std::int64_t width, at::ScalarType dtype) {
  if (layout == "apart") return at::randn({2, 5, heads, width + 3}).to(dtype).narrow(3, 1, width);
  if (layout == "by head") return at::randn({2, heads, 5, width}).to(dtype).transpose(1, 2);
  return at::randn({2, 5, heads, width}).to(dtype);
}

}  // namespace

TEST_CASE("latent_keys appends the rotated part to each head, and its backward has the bits of at::sum") {
  const at::ScalarType dtype = any_dtype();
  const std::int64_t heads = GENERATE(1, 3, 16, 37, 128), plain = 24, value = 40, rotated = 64;
  const auto* const layout = GENERATE("contiguous", "apart", "by head");
  const Tensor kv = heads_of(layout, heads, plain + value, dtype),
               of_all = heads_of(layout, 1, rotated, dtype);
  const Tensor k = at::cat({kv.narrow(3, 0, plain), of_all.expand({-1, -1, heads, -1})}, -1);
  CHECK(at::equal(checked_call("latent_keys", {kv, of_all, plain})[0], k));

  const Tensor grad_k = heads_of(layout, heads, plain + rotated, dtype),
               grad_v = heads_of(layout, heads, value, dtype);
  const Tensors gradients = checked_call("latent_keys_backward", {grad_k, grad_v, plain});
  CHECK(at::equal(gradients[0], at::cat({grad_k.narrow(3, 0, plain), grad_v}, -1)));
  CHECK(at::equal(gradients[1], at::sum(grad_k.narrow(3, plain, rotated), at::IntArrayRef{2}, true)));
}

TEST_CASE("latent_keys sums parts of any width to within rounding") {
  const at::ScalarType dtype = any_dtype();
  const std::int64_t heads = GENERATE(5, 300), rotated = GENERATE(1, 7, 40);
  const Tensor grad_k = heads_of("apart", heads, 2 + rotated, dtype),
               grad_v = heads_of("apart", heads, 1, dtype);
  const Tensor sum = grad_k.narrow(3, 2, rotated).to(at::kDouble).sum(at::IntArrayRef{2}, true);
  check_close(checked_call("latent_keys_backward", {grad_k, grad_v, std::int64_t{2}})[1], sum);
}

TEST_CASE("autograd of latent_keys calls its backward with the gradients of keys and values") {
  const Tensor kv = heads_of("contiguous", 3, 10, at::kFloat).requires_grad_(),
               rotated = heads_of("contiguous", 1, 8, at::kFloat).requires_grad_();
  const KeysAndValues of = latent_keys_of(kv, rotated, 4);
  CHECK(of.v.is_alias_of(kv));
  CHECK(at::equal(of.v, kv.narrow(3, 4, 6)));
  const Tensor grad_k = at::randn(of.k.sizes()), grad_v = at::randn(of.v.sizes());
  at::sum(of.k * grad_k).add(at::sum(of.v * grad_v)).backward();
  const Tensors expected = call("latent_keys_backward", grad_k, grad_v, std::int64_t{4});
  CHECK(at::equal(kv.grad(), expected[0]));
  CHECK(at::equal(rotated.grad(), expected[1]));
}

TEST_CASE("latent_keys has the same bits with any number of threads") {
  const Tensor grad_k = at::randn({2, 300, 16, 48}), grad_v = at::randn({2, 300, 16, 16});
  check_same_with_threads([&] { return call("latent_keys_backward", grad_k, grad_v, std::int64_t{16}); });
}

TEST_CASE("latent_keys refuses mismatched operands and names them") {
  const Tensor kv = at::randn({2, 3, 4, 6}), rotated = at::randn({2, 3, 1, 2});
  const std::int64_t plain = 4;
  check_refused("kv must be [B, S, H, P + V]", "latent_keys", {kv, rotated, std::int64_t{7}});
  check_refused("kv must be [B, S, H, P + V]", "latent_keys", {kv[0], rotated, plain});
  check_refused("rotated is Float [2, 3, 4, 6], but must be Float [2, 3, 1, 6]", "latent_keys",
                {kv, kv, plain});
  check_refused("rotated is BFloat16", "latent_keys", {kv, rotated.to(at::kBFloat16), plain});
  check_refused("grad_k must be [B, S, H, P + R]", "latent_keys_backward", {kv, kv, std::int64_t{6}});
  check_refused("grad_v is Float [2, 3, 1, 2], but must be Float [2, 3, 4, 2]", "latent_keys_backward",
                {kv, rotated, plain});
}

}  // namespace rondo

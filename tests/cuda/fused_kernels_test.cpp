// The CUDA kernels of fused ops on the host (tests/cuda/host/cuda_runtime_api.h) against the CPU's
// kernels.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/add_widened/add_widened_cuda.h"
#include "ops/cross_entropy/cross_entropy_cuda.h"
#include "ops/kernel/arithmetic.h"
#include "ops/latent_keys/latent_keys_cuda.h"
#include "ops/rms_norm/rms_norm_cuda.h"
#include "ops/rope/rope_cuda.h"
#include "ops/swiglu/clamped_swiglu_cuda.h"
#include "ops/swiglu/swiglu_cuda.h"
#include "tests/cuda/addresses.h"
#include "tests/cuda/element_of.h"
#include "tests/ops/call_op.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// Once a case: two calls would always give the same type.
at::ScalarType any_type() { return GENERATE(at::kFloat, at::kBFloat16); }

// Filled with values that kernels must overwrite.
Tensor unwritten(at::IntArrayRef sizes, at::ScalarType type) { return at::full(sizes, 77, type); }

// Tolerances of f32 sums in another order, rounded once. Nans must be in the same places.
void check_close(const Tensor& made, const Tensor& expected) {
  REQUIRE(made.sizes() == expected.sizes());
  REQUIRE(made.scalar_type() == expected.scalar_type());
  const double tolerance = made.scalar_type() == at::kBFloat16 ? 8e-3 : 2e-5;
  CHECK(at::allclose(made.to(at::kDouble), expected.to(at::kDouble), tolerance, tolerance, true));
}

// Rows with `apart` elements between them; the first begins after half of them.
Tensor rows(std::int64_t count, std::int64_t width, std::int64_t apart, at::ScalarType type) {
  return at::randn({count, width + apart}).to(type).narrow(1, apart / 2, width);
}

}  // namespace

TEST_CASE(
    "the kernels of rms_norm equal the CPU's, for rows of one piece or two, strided, unaligned, or very "
    "many") {
  const at::ScalarType x_type = any_type(), weight_type = GENERATE(at::kFloat, at::kBFloat16);
  const auto [count, width] =
      GENERATE(std::pair(1, 1), std::pair(3, 37), std::pair(5, 72), std::pair(515, 5), std::pair(40, 128),
               std::pair(9, 256), std::pair(3, 264), std::pair(2, 8200), std::pair(2, 8209));
  const std::int64_t apart = GENERATE(0, 5, 16);
  INFO(x_type << " " << weight_type << " " << count << " x " << width << ", apart by " << apart);
  const Tensor x = rows(count, width, apart, x_type), weight = at::randn({width}).to(weight_type);
  const cuda::RmsNormRows of{count,
                             width,
                             element_of(x),
                             element_of(weight),
                             x.const_data_ptr(),
                             x.stride(0),
                             weight.const_data_ptr()};

  const Tensors expected = call("rms_norm", x, weight, 1e-5);
  const Tensor y = unwritten({count, width}, expected[0].scalar_type());
  const Tensor inverse_rms = unwritten({count, 1}, at::kFloat);
  cuda::rms_norm(of, nullptr, nullptr, 1e-5f, y.mutable_data_ptr(), floats(inverse_rms), nullptr);
  check_close(y, expected[0]);
  check_close(inverse_rms, expected[1]);

  const Tensor residual = rows(count, width, 0, x_type), sum = unwritten({count, width}, x_type);
  const Tensors of_sum = call("add_rms_norm", x, residual, weight, 1e-5);
  cuda::rms_norm(of, residual.const_data_ptr(), sum.mutable_data_ptr(), 1e-5f, y.mutable_data_ptr(),
                 floats(inverse_rms), nullptr);
  CHECK(at::equal(sum, of_sum[0]));
  check_close(y, of_sum[1]);
  check_close(inverse_rms, of_sum[2]);

  const Tensor grad = rows(count, width, apart, y.scalar_type());
  const bool adds = GENERATE(false, true);
  const Tensors gradients = adds ? call("add_rms_norm_backward", grad, x, weight, inverse_rms, residual)
                                 : call("rms_norm_backward", grad, x, weight, inverse_rms);
  const Tensor grad_x = unwritten({count, width}, x_type), grad_weight = unwritten({width}, at::kFloat);
  const Tensor parts = unwritten({cuda::rms_norm_parts(count, width), width}, at::kFloat);
  cuda::rms_norm_backward(of, grad.const_data_ptr(), grad.stride(0), floats(inverse_rms),
                          adds ? residual.const_data_ptr() : nullptr, grad_x.mutable_data_ptr(),
                          floats(parts), floats(grad_weight), nullptr);
  check_close(grad_x, gradients[0]);
  check_close(grad_weight, gradients[1]);
}

TEST_CASE("the kernels of swiglu equal the CPU's, for rows of one block or two, strided, unaligned, or one") {
  const at::ScalarType type = any_type();
  const auto [count, width] =
      GENERATE(std::pair(1, 1), std::pair(1, 4099), std::pair(3, 64), std::pair(5, 37), std::pair(2, 2056));
  const std::int64_t apart = GENERATE(0, 5, 16);
  INFO(type << " " << count << " x " << width << ", apart by " << apart);
  const Tensor gate = rows(count, width, apart, type), up = rows(count, width, apart, type),
               grad = rows(count, width, 0, type);
  const cuda::SwigluRows of{
      count, width, element_of(up), gate.const_data_ptr(), gate.stride(0), up.const_data_ptr(), up.stride(0)};

  const Tensor y = unwritten({count, width}, type);
  cuda::swiglu(of, y.mutable_data_ptr(), nullptr);
  check_close(y, call("swiglu", gate, up)[0]);

  const Tensor grad_gate = unwritten({count, width}, type), grad_up = unwritten({count, width}, type);
  cuda::swiglu_backward(of, grad.const_data_ptr(), grad_gate.mutable_data_ptr(), grad_up.mutable_data_ptr(),
                        width, nullptr);
  const Tensors expected = call("swiglu_backward", grad, gate, up);
  check_close(grad_gate, expected[0]);
  check_close(grad_up, expected[1]);

  const Tensor joined = unwritten({count, 2 * width}, type);
  cuda::swiglu_backward(of, grad.const_data_ptr(), joined.mutable_data_ptr(),
                        joined.narrow(1, width, width).mutable_data_ptr(), 2 * width, nullptr);
  check_close(joined, call("swiglu_backward_joined", grad, gate, up)[0]);
}

TEST_CASE("the kernels of swiglu read no row from the count on and store zeros there") {
  const at::ScalarType type = any_type();
  const std::int64_t width = GENERATE(64, 37, 2056), apart = GENERATE(0, 16), all = 5;
  const std::int32_t filled = GENERATE(0, 2, 5, 9);
  Tensor gate = rows(all, width, apart, type), up = rows(all, width, apart, type),
         grad = rows(all, width, 0, type);
  for (Tensor* x : {&gate, &up, &grad})
    if (filled < all) x->narrow(0, filled, all - filled).fill_(std::nan(""));
  const Tensor count = at::full({}, filled, at::kInt);
  const cuda::SwigluRows of{all,
                            width,
                            element_of(up),
                            gate.const_data_ptr(),
                            gate.stride(0),
                            up.const_data_ptr(),
                            up.stride(0),
                            count.const_data_ptr<std::int32_t>()};
  const Tensor y = unwritten({all, width}, type);
  cuda::swiglu(of, y.mutable_data_ptr(), nullptr);
  check_close(y, call("swiglu_rows", gate, up, count)[0]);
  const Tensor grad_gate = unwritten({all, width}, type), grad_up = unwritten({all, width}, type);
  cuda::swiglu_backward(of, grad.const_data_ptr(), grad_gate.mutable_data_ptr(), grad_up.mutable_data_ptr(),
                        width, nullptr);
  const Tensors expected = call("swiglu_rows_backward", grad, gate, up, count);
  check_close(grad_gate, expected[0]);
  check_close(grad_up, expected[1]);
}

TEST_CASE("the kernels of the clamped swiglu equal the CPU's, in place too, for all rows or some") {
  const at::ScalarType type = any_type();
  const auto [count, width] =
      GENERATE(std::pair(1, 1), std::pair(3, 64), std::pair(5, 37), std::pair(2, 2056));
  const double limit = 0.7, slope = 1.702;
  INFO(type << " " << count << " x " << width);
  const std::int64_t valid = count - GENERATE(0, 1);
  const Tensor gate_up = rows(count, 2 * width, 0, type), grad = rows(count, width, 0, type);
  for (const Tensor& x : {gate_up, grad}) x.narrow(0, valid, count - valid).fill_(std::nan(""));
  const Tensor filled = at::full({}, valid, at::kInt);
  const cuda::ClampedPairs in{count,
                              width,
                              element_of(grad),
                              gate_up.const_data_ptr(),
                              filled.const_data_ptr<std::int32_t>(),
                              static_cast<float>(limit),
                              static_cast<float>(slope)};

  const Tensor y = unwritten({count, width}, type);
  cuda::clamped_swiglu(in, y.mutable_data_ptr(), nullptr);
  check_close(y, call("clamped_swiglu", gate_up, filled, limit, slope)[0]);

  const Tensor expected = call("clamped_swiglu_backward", grad, gate_up, filled, limit, slope)[0];
  for (const Tensor& to : {unwritten({count, 2 * width}, type), gate_up}) {
    cuda::clamped_swiglu_backward(in, grad.const_data_ptr(), to.mutable_data_ptr(), nullptr);
    check_close(to, expected);
  }
}

TEST_CASE("a divisor known before a launch divides as the CPU does, up to the largest numbers") {
  constexpr std::uint32_t kMax = (1u << 31) - 1;
  for (const std::uint32_t divisor :
       {1u, 2u, 3u, 7u, 8u, 127u, 128u, 1000u, 65535u, 65536u, kMax - 1, kMax}) {
    const cuda::Divisor by(divisor);
    const std::uint32_t multiple = kMax / divisor * divisor;
    for (const std::uint32_t number :
         {0u, 1u, divisor - 1, divisor, multiple / 2, multiple - 1, multiple, kMax - 1, kMax}) {
      CHECK(by.divide(number).quotient == number / divisor);
      CHECK(by.divide(number).remainder == number % divisor);
    }
  }
}

TEST_CASE(
    "the kernel of rope equals the CPU's, for halves and neighbors, in both directions, of strided heads") {
  const at::ScalarType type = any_type();
  const bool interleaved = GENERATE(false, true), inverse = GENERATE(false, true),
             one_table = GENERATE(false, true);
  const std::int64_t batch = 3, heads = 2, rotated = GENERATE(2, 10, 48), apart = GENERATE(0, 3, 16),
                     width = rotated + GENERATE(0, 6, 40);
  // 45 tokens of three pieces a head have two blocks a row: in place neither has a part of a head.
  const std::int64_t time = rotated == 48 && apart == 0 ? 45 : 7;
  const Tensor x = at::randn({batch, time, heads, width + apart}).to(type).narrow(3, apart / 2, width);
  const Tensor angle = at::randn({one_table ? 1 : batch, time, 1, rotated / 2}) * 3;
  const Tensor cos = angle.cos(), sin = angle.sin(), y = unwritten(x.sizes(), type);
  const auto rotate = [&](const Tensor& from, const Tensor& to) {
    cuda::rope({batch, time, heads, width, rotated, from.stride(0), from.stride(1), from.stride(2),
                element_of(from), one_table},
               from.const_data_ptr(), floats(cos), floats(sin), interleaved, inverse, to.mutable_data_ptr(),
               nullptr);
  };
  rotate(x, y);
  const Tensor expected = call("rope", x, cos, sin, interleaved, inverse)[0];
  check_close(y, expected);
  const Tensor in_place = x.clone(at::MemoryFormat::Contiguous);
  rotate(in_place, in_place);
  CHECK(at::equal(in_place, y));
}

TEST_CASE("the kernel of add_widened has the CPU's bits, for any count, aligned or not") {
  const at::ScalarType type = any_type(), of_x = GENERATE(at::kFloat, at::kBFloat16);
  if (type == at::kBFloat16 && of_x == at::kFloat) return;
  const std::int64_t count = GENERATE(1, 7, 64, 5003), begin = GENERATE(0, 1);
  const Tensor sum = at::randn({begin + count}).to(type).narrow(0, begin, count),
               x = at::randn({count}).to(of_x);
  const Tensor expected = call("add_widened", sum, x)[0];
  cuda::add_widened(sum.mutable_data_ptr(), element_of(sum), x.const_data_ptr(), element_of(x), count,
                    nullptr);
  CHECK(at::equal(sum, expected));
}

TEST_CASE("the kernels of latent_keys have the CPU's bits, for heads of any width, strided and unaligned") {
  const at::ScalarType type = any_type();
  const std::int64_t batch = 3, time = 7, heads = GENERATE(1, 2, 35), apart = GENERATE(0, 3, 16);
  const auto [plain, rotated, value] = GENERATE(std::tuple(16, 8, 24), std::tuple(1, 5, 19));
  INFO(type << " " << heads << " heads, " << plain << " " << rotated << " " << value << ", apart by "
            << apart);
  const auto draw = [&](std::int64_t of, std::int64_t width) {
    return at::randn({batch, time, of, width + apart}).to(type).narrow(3, apart / 2, width);
  };
  const auto strided = [](const Tensor& x) {
    return cuda::StridedHeads{x.const_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
  };
  const cuda::LatentHeads of{batch, time, heads, plain, rotated, value, element_of(at::empty({0}, type))};
  const Tensor kv = draw(heads, plain + value), shared = draw(1, rotated),
               k = unwritten({batch, time, heads, plain + rotated}, type);
  cuda::latent_keys(of, strided(kv), strided(shared), k.mutable_data_ptr(), nullptr);
  const std::int64_t begin = plain;
  CHECK(at::equal(k, call("latent_keys", kv, shared, begin)[0]));

  const Tensor grad_k = draw(heads, plain + rotated), grad_v = draw(heads, value),
               grad_kv = unwritten(kv.sizes(), type), grad_shared = unwritten(shared.sizes(), type);
  cuda::latent_keys_backward(of, strided(grad_k), strided(grad_v), grad_kv.mutable_data_ptr(),
                             grad_shared.mutable_data_ptr(), nullptr);
  const Tensors expected = call("latent_keys_backward", grad_k, grad_v, begin);
  CHECK(at::equal(grad_kv, expected[0]));
  CHECK(at::equal(grad_shared, expected[1]));
}

namespace {

constexpr std::int64_t kIgnored = -100;

// Logits as in the workspace of the CPU's ops, all rows in one chunk.
struct Head {
  Tensor h, weight, labels;

  Head(std::int64_t count, std::int64_t classes, at::ScalarType type)
      : h(at::randn({count, 8}).to(type)),
        weight(at::randn({classes, 8}).to(type)),
        labels(at::randint(classes, {count}, at::kLong)) {}
  Tensor logits() const { return at::mm(h, weight.t()); }
  std::int64_t rows() const { return h.size(0); }
};

cuda::LogitRows rows_of(const Tensor& logits) {
  return {logits.mutable_data_ptr(), element_of(logits), logits.size(0), logits.size(1)};
}
const std::int64_t* places(const Tensor& labels) { return labels.const_data_ptr<std::int64_t>(); }

std::int64_t any_classes() { return GENERATE(3, 40, 1003, 9000); }

}  // namespace

TEST_CASE("the kernels of a cross-entropy equal the CPU's, with ignored labels and invalid labels") {
  const std::int64_t classes = any_classes();
  const Head head(5, classes, any_type());
  head.labels[1].fill_(kIgnored);
  head.labels[3].fill_(classes);
  const Tensor gradient = at::full({}, 0.2f), losses = unwritten({5}, at::kFloat);
  const Tensors expected =
      call("linear_cross_entropy", head.h, head.weight, head.labels, gradient, kIgnored, head.rows());
  const Tensor logits = head.logits(), before = logits.clone();
  cuda::cross_entropy_losses(rows_of(logits), places(head.labels), kIgnored, nullptr, floats(losses),
                             nullptr);
  check_close(losses, expected[0]);
  CHECK(at::equal(logits, before));
  cuda::cross_entropy_losses(rows_of(logits), places(head.labels), kIgnored, floats(gradient), floats(losses),
                             nullptr);
  check_close(losses, expected[0]);
  check_close(logits, expected[3]);
}

TEST_CASE(
    "the kernels of a whole cross-entropy equal the CPU's, in place and unaligned, for more rows than "
    "threads") {
  const std::int64_t classes = any_classes(), count = classes > 100 ? 5 : 600;
  const at::ScalarType type = any_type();
  const Tensor logits = at::randn({count, classes}).to(type);
  const Tensor labels = at::randint(classes, {count}, at::kLong), grad = at::full({}, 0.2f);
  labels[1].fill_(kIgnored);
  const Tensors expected = call("cross_entropy", logits, labels, kIgnored);
  const Tensor largest = unwritten({count}, at::kFloat), sum = unwritten({count}, at::kFloat),
               of_label = unwritten({count}, at::kFloat), loss = unwritten({}, at::kFloat);
  cuda::cross_entropy_statistics(rows_of(logits), places(labels), floats(largest), floats(sum),
                                 floats(of_label), nullptr);
  cuda::cross_entropy_total(floats(largest), floats(sum), floats(of_label), places(labels), kIgnored, count,
                            floats(loss), nullptr);
  check_close(largest, expected[1]);
  check_close(sum, expected[2]);
  check_close(loss, expected[0]);

  const Tensor gradient = call("cross_entropy_backward", grad, logits, labels, largest, sum, kIgnored)[0];
  const Tensor askew = unwritten({count * classes + 1}, type).narrow(0, 1, count * classes);
  for (const Tensor& to : {unwritten({count, classes}, type), askew.view({count, classes}), logits}) {
    cuda::cross_entropy_backward(floats(grad), rows_of(logits), places(labels), floats(largest), floats(sum),
                                 kIgnored, to.mutable_data_ptr(), nullptr);
    check_close(to, gradient);
  }
}

TEST_CASE("the kernels of a shard of a cross-entropy equal the CPU's") {
  const Head head(5, any_classes(), any_type());
  const Tensor place = head.labels.view({-1, 1}), logits = head.logits();
  const Tensors expected = call("linear_cross_entropy_statistics", head.h, head.weight, place, head.rows());
  const Tensor largest = unwritten({5}, at::kFloat), sum = unwritten({5}, at::kFloat),
               of_place = unwritten({5, 1}, at::kFloat);
  cuda::cross_entropy_statistics(rows_of(logits), places(place), floats(largest), floats(sum),
                                 floats(of_place), nullptr);
  check_close(largest, expected[0]);
  check_close(sum, expected[1]);
  check_close(of_place, expected[2]);

  const Tensor gradient = at::rand({5, 1}), place_gradient = at::rand({5, 1});
  const Tensors gradients =
      call("linear_cross_entropy_gradients", head.h, head.weight, place, largest.view({-1, 1}),
           sum.view({-1, 1}), gradient, place_gradient, head.rows());
  cuda::cross_entropy_gradients(rows_of(logits), places(place), floats(largest), floats(sum),
                                floats(gradient), floats(place_gradient), nullptr);
  check_close(logits, gradients[2]);
}

}  // namespace rondo

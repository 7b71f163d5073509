// Deliberate bugs, as nvcc or a change of flags could make them: one opcode of a kernel's PTX is
// another. Each is found by the comparison with the CPU's kernel, or as an error.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <catch2/catch_test_macros.hpp>

#include "ops/adamw/adamw_cuda.h"
#include "ops/add_widened/add_widened_cuda.h"
#include "ops/rope/rope_cuda.h"
#include "ops/sort_slots/sort_slots.h"
#include "ops/sort_slots/sort_slots_cuda.h"
#include "ops/sums_of_squares/sums_of_squares_cuda.h"
#include "tests/cuda/element_of.h"
#include "tests/ops/call_op.h"
#include "tests/ptx/program.h"

namespace rondo::ptx {
namespace {

using at::Tensor;

bool adamw_agrees() {
  const auto draw = [](bool positive) { return positive ? at::rand({300}) : at::randn({300}); };
  const Tensor parameter = draw(false), average = draw(false), square = draw(true), gradient = draw(false);
  const Tensor step = at::full({}, 5.0f), lr = at::full({}, 3e-3f), scale = at::full({}, 1.3f),
               found_inf = at::full({}, 0.0f);
  const AdamWOptions o;
  const std::vector<std::int64_t> nearest;
  const auto expected = call("adamw", std::vector{parameter}, std::vector{average}, std::vector{square},
                             std::vector{gradient}, step, lr, scale, found_inf, o.beta1, o.beta2, o.eps,
                             o.weight_decay, o.decoupled_weight_decay, nearest);
  const std::vector<cuda::UpdatedTensor> updated = {{parameter.mutable_data_ptr(), average.mutable_data_ptr(),
                                                     square.mutable_data_ptr(), gradient.const_data_ptr(),
                                                     300}};
  cuda::adamw({cuda::Element::f32, cuda::Element::f32, cuda::Element::f32}, updated,
              {step.const_data_ptr<float>(), lr.const_data_ptr<float>(), scale.const_data_ptr<float>(),
               found_inf.const_data_ptr<float>()},
              o, nullptr);
  return at::equal(parameter, expected[0]) && at::equal(average, expected[1]) &&
         at::equal(square, expected[2]);
}

bool sums_of_squares_agrees() {
  const Tensor x = at::randn({20'000});
  const Tensor chunks = at::full({2}, 9, at::kDouble), sum = at::full({1}, 9, at::kDouble);
  const std::vector<cuda::SquaredTensor> squared = {{x.const_data_ptr(), x.numel(), 0}};
  cuda::sums_of_squares(cuda::Element::f32, squared, chunks.mutable_data_ptr<double>(),
                        sum.mutable_data_ptr<double>(), nullptr);
  return at::equal(sum, call("sums_of_squares", std::vector{x})[0]);
}

bool add_widened_agrees() {
  const Tensor storage = at::randn({320}).to(at::kBFloat16), sum = storage.narrow(0, 0, 304),
               x = at::randn({320}).to(at::kBFloat16).narrow(0, 0, 304),
               behind = storage.narrow(0, 304, 16).clone();
  const Tensor expected = call("add_widened", sum.clone(), x)[0];
  cuda::add_widened(sum.mutable_data_ptr(), cuda::Element::bf16, x.const_data_ptr(), cuda::Element::bf16, 304,
                    nullptr);
  return at::equal(sum, expected) && at::equal(storage.narrow(0, 304, 16), behind);
}

bool rope_agrees() {
  const Tensor x = at::randn({2, 7, 3, 64}), angle = at::randn({2, 7, 1, 32}) * 3, cos = angle.cos(),
               sin = angle.sin(), y = at::full({2, 7, 3, 64}, 9.0f);
  cuda::rope({2, 7, 3, 64, 64, x.stride(0), x.stride(1), x.stride(2), cuda::Element::f32, false},
             x.const_data_ptr(), cos.const_data_ptr<float>(), sin.const_data_ptr<float>(), false, false,
             y.mutable_data_ptr(), nullptr);
  return at::equal(y, call("rope", x, cos, sin, false, false)[0]);
}

bool sort_slots_agrees() {
  const std::int64_t slots = 5000, kinds = 40;
  const Tensor keys = at::randint(kinds, {slots}, at::kLong), order = at::full({slots}, -1, at::kLong),
               place = at::full({slots}, -1, at::kLong), counts = at::full({kinds}, -1, at::kInt),
               workspace = at::full({cuda::sort_slots_workspace(slots, kinds)}, -1, at::kInt);
  cuda::sort_slots(keys.const_data_ptr<std::int64_t>(), slots, kinds,
                   workspace.mutable_data_ptr<std::int32_t>(), order.mutable_data_ptr<std::int64_t>(),
                   place.mutable_data_ptr<std::int64_t>(), counts.mutable_data_ptr<std::int32_t>(), nullptr);
  const SortedSlots expected = sort_slots(keys, kinds);
  return at::equal(order, expected.order_N) && at::equal(place, expected.place_N) &&
         at::equal(counts, expected.counts);
}

bool agrees(bool (*comparison)()) {
  at::manual_seed(11);
  try {
    return comparison();
  } catch (const std::runtime_error&) {
    return false;
  }
}

struct Mutant {
  const char* bug;
  bool (*comparison)();
  const char* kernel;
  const char *from, *to;
};

constexpr Mutant kMutants[] = {
    {"an update rounds down", adamw_agrees, "update_kernelIfff", "fma.rn.f32", "fma.rm.f32"},
    {"a root is a reciprocal", adamw_agrees, "update_kernelIfff", "sqrt.rn.f32", "rcp.rn.f32"},
    {"a quotient is a product", adamw_agrees, "update_kernelIfff", "div.rn.f32", "mul.rn.f32"},
    {"a sum of squares is of integers", sums_of_squares_agrees, "chunk_kernelIf", "fma.rn.f64", "mad.lo.s64"},
    {"a reduction reads one lane", sums_of_squares_agrees, "chunk_kernelIf", "shfl.sync.bfly",
     "shfl.sync.idx"},
    {"a reduction has no barrier", sums_of_squares_agrees, "13tensor_kernel", "bar.sync 0;", ""},
    {"a rounding cuts", add_widened_agrees, "add_kernelI13__nv_bfloat16S3_Lb1", "cvt.rn.bf16.f32",
     "cvt.u16.u32"},
    {"an address counts bytes as elements", add_widened_agrees, "add_kernelI13__nv_bfloat16S3_Lb1", "shl.b64",
     "shr.u64"},
    {"the last element's bound is one further", add_widened_agrees, "add_kernelI13__nv_bfloat16S3_Lb1",
     "setp.ge.s64", "setp.gt.s64"},
    {"a rotation adds", rope_agrees, "rope_kernelIfLb1", "sub.rn.f32", "add.rn.f32"},
    {"a rotation takes the larger", rope_agrees, "rope_kernelIfLb1", "add.rn.f32", "max.f32"},
    {"a count of equal keys is of bits that differ", sort_slots_agrees, "12count_kernel", "popc.b32",
     "not.b32"},
    {"a sum is a maximum", add_widened_agrees, "add_kernelI13__nv_bfloat16S3_Lb1", "add.f32", "max.f32"},
};

}  // namespace

TEST_CASE("the comparisons agree without a bug, whichever warp runs first") {
  for (const Order order : {Order::descending, Order::ascending}) {
    set_order(order);
    for (const auto comparison :
         {adamw_agrees, sums_of_squares_agrees, add_widened_agrees, rope_agrees, sort_slots_agrees})
      CHECK(agrees(comparison));
  }
}

TEST_CASE("each bug in the PTX of a kernel is found") {
  for (const Mutant& mutant : kMutants) {
    INFO(mutant.bug);
    const Mutation mutation(mutant.kernel, mutant.from, mutant.to);
    CHECK_FALSE(agrees(mutant.comparison));
  }
}

}  // namespace rondo::ptx

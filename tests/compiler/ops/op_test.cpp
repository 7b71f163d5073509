// The rows of ops, against the dispatcher and the CPU kernels of this LibTorch.
#include "compiler/ops/op.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>

#include "compiler/execute/cpu_memory.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/grouped_sum/grouped_sum.h"

namespace rondo {
namespace {

std::optional<c10::OperatorHandle> find(std::string_view name) {
  const std::string op(name);
  const std::size_t first = op.find('.'), last = op.rfind('.');
  const std::string overload = op.substr(last + 1);
  return c10::Dispatcher::singleton().findSchema(
      {op.substr(0, first) + "::" + op.substr(first + 1, last - first - 1),
       overload == "default" ? "" : overload});
}

at::Tensor call(std::string_view name, at::Tensor self, const at::Tensor& other) {
  const c10::OperatorHandle op = *find(name);
  torch::jit::Stack stack{self};
  for (std::size_t i = 1; i < op.schema().arguments().size(); ++i) {
    const c10::Argument& argument = op.schema().arguments()[i];
    if (argument.type()->kind() == c10::TypeKind::TensorType) {
      stack.emplace_back(other);
    } else if (argument.type()->kind() == c10::TypeKind::StringType) {
      stack.emplace_back(std::string());
    } else {
      stack.push_back(argument.default_value().value_or(c10::IValue(1)));
    }
  }
  op.callBoxed(stack);
  return stack.at(0).toTensor();
}

}  // namespace

TEST_CASE("every op with a row exists in the dispatcher, and every in-place form overwrites its arguments") {
  for (const ir::Op& fact : ir::all_ops()) {
    INFO(fact.name);
    REQUIRE(find(fact.name));
    const auto is_in_place_form = [&](const ir::Op& other) {
      return other.overwritten > 0 && ir::in_place_name(other) == fact.name;
    };
    CHECK(find(fact.name)->schema().is_mutable() ==
          std::any_of(ir::all_ops().begin(), ir::all_ops().end(), is_in_place_form));
    if (fact.overwritten == 0) continue;
    const std::string in_place = ir::in_place_name(fact);
    INFO(in_place);
    REQUIRE(find(in_place));
    const auto& arguments = find(in_place)->schema().arguments();
    int overwritten = 0;
    for (const c10::Argument& argument : arguments)
      overwritten += argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    CHECK(overwritten == fact.overwritten);
    CHECK(arguments.size() == find(fact.name)->schema().arguments().size());
  }
}

TEST_CASE(
    "an optimizer has its gradients at the position of its row, and returns new tensors if the row says so") {
  for (const ir::Op& fact : ir::all_ops()) {
    if (fact.kind != ir::OpKind::optimizer) continue;
    INFO(fact.name);
    const auto& arguments = find(fact.name)->schema().arguments();
    for (std::size_t i = 0; i < arguments.size(); ++i)
      CHECK((arguments[i].name() == "gradients") == (static_cast<int>(i) == fact.gradients));
    CHECK(find(ir::in_place_name(fact))->schema().returns().size() == (fact.makes_for >= 0 ? 1 : 0));
    CHECK(find(fact.name)->schema().returns().size() ==
          static_cast<std::size_t>(fact.overwritten) + (fact.makes_for >= 0 ? 1 : 0));
  }
}

TEST_CASE("a collective has its arguments at the positions of its row") {
  const auto name_at = [](std::string_view op, int position) {
    return position < 0 ? "" : find(op)->schema().arguments().at(static_cast<std::size_t>(position)).name();
  };
  for (const ir::Op& fact : ir::all_ops()) {
    if (!fact.collective) continue;
    INFO(fact.name);
    const std::string group = name_at(fact.name, fact.collective->group);
    CHECK((group == "group_name" || group == "group"));
    const auto& arguments = find(fact.name)->schema().arguments();
    const auto says = [&](std::string_view name) {
      return std::any_of(arguments.begin(), arguments.end(), [&](const auto& a) { return a.name() == name; });
    };
    CHECK(name_at(fact.name, fact.collective->ranks) == (says("group_size") ? "group_size" : ""));
    CHECK(name_at(fact.name, fact.collective->reduction) == (says("reduce_op") ? "reduce_op" : ""));
  }
}

TEST_CASE("a signature of a row is that of the dispatcher's schema") {
  for (const ir::Op& fact : ir::all_ops()) {
    if (fact.signature.arguments == 0) continue;
    INFO(fact.name);
    const c10::FunctionSchema& schema = find(fact.name)->schema();
    CHECK(schema.arguments().size() == fact.signature.arguments);
    CHECK(schema.returns().size() == fact.signature.results);
    for (std::size_t i = 0; i < fact.signature.arguments; ++i)
      CHECK((schema.arguments()[i].type()->kind() == c10::TypeKind::TensorType) ==
            (i < fact.signature.tensors));
  }
}

TEST_CASE("a view of a row is a view in the dispatcher's schema") {
  for (const ir::Op& fact : ir::all_ops()) {
    if (fact.view == ir::ViewKind::none || fact.name == "aten._unsafe_view.default") continue;
    INFO(fact.name);
    CHECK(find(fact.name)->schema().arguments()[0].alias_info() != nullptr);
  }
}

TEST_CASE("in-place forms have the bits of the functional op") {
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor x = (at::randn({4099}) * 4).to(dtype), y = (at::randn({4099}) + 3).to(dtype);
  const at::Tensor matrix = at::randn({65, 65}).to(dtype), other = at::randn({65, 65}).to(dtype);
  for (const ir::Op& fact : ir::all_ops()) {
    if (fact.overwritten != 1 || fact.kind == ir::OpKind::optimizer) continue;  // lists, in ops_test
    INFO(fact.name << " " << c10::toString(dtype));
    const bool is_product = fact.is_heavy();
    const at::Tensor &self = is_product ? matrix : x, &operand = is_product ? other : y;
    const at::Tensor expected = call(fact.name, self, operand);
    const at::Tensor got = call(ir::in_place_name(fact), self.clone(), operand);
    CHECK(std::memcmp(expected.const_data_ptr(), got.const_data_ptr(), expected.nbytes()) == 0);
  }
}

TEST_CASE("a result that reuses its operand's memory has the same bits") {
  cpu_memory::install();
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor grad = at::randn({37, 2051}).to(dtype), other = at::randn({37, 2051}).to(dtype);
  const auto compare = [](const at::Tensor& reusable, auto&& op) {
    const at::Tensor expected = op(reusable);
    cpu_memory::Arena arena(reusable.nbytes());
    const at::Tensor operand = at::from_blob(arena.data(), reusable.sizes(), reusable.options());
    operand.copy_(reusable);
    const PlacedResult place{arena.data(), reusable.nbytes()};
    at::Tensor got;
    {
      const cpu_memory::ResultPlacement placement(std::span(&place, 1), {});
      got = op(operand);
    }
    REQUIRE(got.const_data_ptr() == arena.data());
    CHECK(at::equal(got, expected));
  };
  compare(grad, [&](const at::Tensor& g) { return at::silu_backward(g, other); });
  compare(grad, [&](const at::Tensor& g) { return call("rondo.swiglu.default", g, other); });
  const at::Tensor gate_up = at::randn({37, 2 * 2051}).to(dtype);
  compare(gate_up, [&](const at::Tensor& pairs) {
    torch::jit::Stack stack{grad, pairs, at::full({}, 29, at::kInt), 7.0, 1.702};
    find("rondo.clamped_swiglu_backward.default")->callBoxed(stack);
    return stack.at(0).toTensor();
  });
  const at::Tensor heads = at::randn({2, 5, 3, 48}).to(dtype), angle = at::rand({1, 5, 1, 9});
  for (const bool interleaved : {false, true})
    for (const bool inverse : {false, true})
      compare(heads, [&](const at::Tensor& x) {
        torch::jit::Stack stack{x, angle.cos(), angle.sin(), interleaved, inverse};
        find("rondo.rope.default")->callBoxed(stack);
        return stack.at(0).toTensor();
      });
  const at::Tensor ends = at::tensor({5, 5, 30}, at::kInt);
  compare(grad, [&](const at::Tensor& x) { return grouped_add(x, other.narrow(0, 0, 3), ends); });
  const at::Tensor labels = at::arange(37), ones = at::ones({37}), each = at::ones({});
  compare(grad, [&](const at::Tensor& logits) {
    return cross_entropy_backward(kCrossEntropyOnCpu, each, logits, labels, ones, ones, 0);
  });
}

}  // namespace rondo

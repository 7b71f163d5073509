#include "compiler/verify/sharding_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "compiler/ir/op_facts.h"
#include "compiler/text/text.h"

namespace rondo::ir {
namespace {

using Kind = Placement::Kind;

[[noreturn]] void refuse(const char* what, const Placement& a, const Placement& b) {
  throw Refused{fmt::format("{} \"{}\" and \"{}\"", what, print(a), print(b))};
}

// What lies beside each other, element by element, once summands are out of the question.
Placement beside(const Placement& a, const Placement& b) {
  if (a == b || b.kind == Kind::zero || b.kind == Kind::replicated) return a;
  if (a == inner(0) && b == sharded(0)) return a;  // as_flat (value_shardings.h)
  if (b == inner(0) && a == sharded(0)) return b;
  if (a.kind == Kind::zero || a.kind == Kind::replicated) return b;
  if (a.kind == Kind::local || b.kind == Kind::local) return kLocal;
  refuse("the operands are cut in two ways,", a, b);
}

}  // namespace

Placement OnAxis::operand(std::size_t i) const {
  const ValueId id = ir::operand(node, i);
  return id == kNoValue ? kReplicated : placed[id];
}

const TensorType& OnAxis::type(std::size_t i) const {
  static const TensorType kScalar;
  const ValueId id = ir::operand(node, i);
  return id == kNoValue ? kScalar : graph.value(id).type;
}

std::int64_t OnAxis::integer(std::size_t i) const {
  const auto* number = i < node.args.size() ? std::get_if<std::int64_t>(&node.args[i]) : nullptr;
  return number != nullptr ? *number : 0;
}

bool is_partial(const Placement& p) { return p.kind == Kind::partial_sum || p.kind == Kind::partial_max; }

Placement nonlinear(const Placement& p) {
  if (is_partial(p)) throw Refused{"it is not linear, and takes a summand"};
  if (p.repeated) throw Refused{"it is not linear, and takes what ranks have counted repeatedly"};
  return p.kind == Kind::zero ? kReplicated : p;
}

Placement sum_of(const Placement& a, const Placement& b) {
  if (a.kind == Kind::zero) return b;
  if (b.kind == Kind::zero || a == b) return a;
  if (a.kind == Kind::partial_max && b == kReplicated) return a;
  if (is_partial(a) || is_partial(b)) refuse("it adds a summand to what is none,", a, b);
  if (a.repeated || b.repeated) refuse("it adds what is counted repeatedly to what is not,", a, b);
  return beside(a, b);
}

Placement product_of(const Placement& a, const Placement& b) {
  if (a.kind == Kind::zero || b.kind == Kind::zero) return kZero;
  // A sum relative to the largest that the rank has, scaled to the largest of all.
  if (a.kind == Kind::partial_sum && b.kind == Kind::partial_max) return a;
  if (is_partial(a) && is_partial(b)) refuse("it multiplies two summands,", a, b);
  if (a.kind == Kind::partial_sum && b == kReplicated) return a;
  if (b.kind == Kind::partial_sum && a == kReplicated) return b;
  if (a.kind == Kind::partial_sum || b.kind == Kind::partial_sum)
    refuse("it multiplies a summand by what differs between ranks,", a, b);
  if (a.repeated && b.repeated) refuse("both factors are counted repeatedly,", a, b);
  const auto once = [](Placement p) { return p.repeated = false, p; };
  Placement made = beside(nonlinear(once(a)), nonlinear(once(b)));
  made.repeated = a.repeated || b.repeated;
  return made;
}

bool is_integer(DType dtype) { return !is_float(dtype); }

int dim_of(std::int64_t dim, std::size_t dims) {
  return static_cast<int>(dim < 0 ? dim + static_cast<std::int64_t>(dims) : dim);
}

std::string without_overwriting(const std::string& op) {
  const std::size_t dot = op.rfind('.');
  if (dot == std::string::npos || dot == 0 || op[dot - 1] != '_') return op;
  return op.substr(0, dot - 1) + op.substr(dot);
}

bool keeps_parts(std::string_view op) {
  static constexpr std::string_view kOps[] = {
      "aten._to_copy.default", "aten._unsafe_view.default", "aten.clone.default", "aten.detach.default",
      "aten.div.Scalar",       "aten.div.Tensor",           "aten.mul.Scalar",    "aten.view.default"};
  return is_collective(facts(op)) || facts(op).effect == Effect::wait ||
         std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

NamedRule sharding_rule(std::string_view op) {
  static const auto* const table = [] {
    auto* all = new std::unordered_map<std::string_view, NamedRule>;
    for (const auto& rules :
         {arithmetic_rules(), product_rules(), row_rules(), view_rules(), collective_rules()})
      for (const NamedRule& row : rules) all->emplace(row.op, row);
    return all;
  }();
  const auto found = table->find(op);
  return found == table->end() ? NamedRule{op, nullptr} : found->second;
}

}  // namespace rondo::ir

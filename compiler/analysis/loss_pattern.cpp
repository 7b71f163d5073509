// A match starts at the node that is rare (cross_entropy, or amax over the classes) and checks every node
// around it by op, arguments, types and number of readers. One reader more than expected refuses the match,
// because the chunked op does not produce the values in between. The backward may read a weight that was
// gathered a second time, so operands of the two phases are compared by walking both chains of definitions in
// lockstep. A refusal is an exception with its reason, for the pass's note.
#include "compiler/analysis/loss_pattern.h"

#include <algorithm>

#include "compiler/analysis/fusion.h"
#include "compiler/ops/op.h"

namespace rondo::ir {
namespace {

constexpr const char* kReadElsewhere =
    "something else reads what lies between the head's product and the loss";
constexpr const char* kFloat8 =
    "its logits are a product of float8; quantize.linear.float8.filter_fqns = [\"output\"] leaves the head "
    "out";
constexpr const char* kNoProduct =
    "its logits are no product of activations and a weight, in f64, f32 or bf16";
constexpr const char* kNoSum = "it is no plain sum of losses";
constexpr const char* kNoMean =
    "its gradient is not that of a sum over valid tokens, divided by their number";
constexpr const char* kOtherBackward = "its backward is not that of the head's product";

void require(bool holds, const char* why) {
  if (!holds) throw LossMiss{why};
}

bool is_number(const Node& node, std::size_t argument, std::int64_t number) {
  return argument < node.args.size() && node.args[argument] == Argument{number};
}

bool is_flag(const Node& node, std::size_t argument, bool flag) {
  return argument < node.args.size() && node.args[argument] == Argument{flag};
}

bool is_over_classes(const Node& node) {  // a reduction of [N, V] to [N]
  return node.args.size() > 2 && node.args[1] == Argument{std::vector<std::int64_t>{1}} &&
         is_flag(node, 2, false);
}

bool is_matrix(const TensorType& type) { return type.sizes.size() == 2 && is_contiguous(type); }

}  // namespace

LossMatcher::LossMatcher(const Graph& graph) : graph_(graph), def_use_(graph) {}

// nullptr if another op makes it.
const Node* LossMatcher::made_by(ValueId id, std::string_view op) const {
  const NodeIndex i = def_use_.maker(id);
  return i >= 0 && node(i).op == op ? &node(i) : nullptr;
}

NodeIndex LossMatcher::only_reader(ValueId id, std::string_view op) const {
  require(readers(id).size() == 1 && node(readers(id)[0]).op == op && !node(readers(id)[0]).results.empty(),
          kReadElsewhere);
  return readers(id)[0];
}

// The one reader with this op, -1 if there is none.
NodeIndex LossMatcher::reader(ValueId id, std::string_view op) const {
  NodeIndex found = -1;
  for (NodeIndex i : readers(id)) {
    if (node(i).op != op) continue;
    require(found < 0 && !node(i).results.empty(), kReadElsewhere);
    found = i;
  }
  return found;
}

// [N] that a column [N, 1] is a view of, kNoValue if it is none.
ValueId LossMatcher::column_source(ValueId column) const {
  const ValueId source = column == kNoValue ? kNoValue : graph_.value(column).views;
  if (source == kNoValue || !is_contiguous(type(column)) || !is_contiguous(type(source))) return kNoValue;
  return type(source).sizes.size() == 1 && type(column).sizes.size() == 2 &&
                 type(column).sizes[0] == type(source).sizes[0]
             ? source
             : kNoValue;
}

// Casts, views and collectives of the same give the same, in whichever phase.
bool LossMatcher::same_content(ValueId a, ValueId b) const {
  while (a != b) {
    if (a == kNoValue || b == kNoValue) return false;
    const NodeIndex first = def_use_.maker(a);
    const NodeIndex second = def_use_.maker(b);
    if (first < 0 || second < 0 || type(a) != type(b)) return false;
    const Node &x = node(first), &y = node(second);
    const Effect effect = facts(x.op).effect;
    if (x.op != y.op || x.args.size() != y.args.size() || x.args.empty() || x.results.size() != 1 ||
        effect == Effect::random || effect == Effect::host_sync)
      return false;
    if (!std::equal(x.args.begin() + 1, x.args.end(), y.args.begin() + 1)) return false;
    a = operand(x, 0);
    b = operand(y, 0);
  }
  return true;
}

LossHead LossMatcher::head_of(ValueId logits) const {
  LossHead head{.product = logits, .logits = logits, .module = {}};
  if (const Node* cast = made_by(logits, kToCopy); cast != nullptr && is_cast(*cast, DType::f32)) {
    head.product = operand(*cast, 0);
    only_reader(head.product, kToCopy);
  }
  require(made_by(head.product, "rondo.float8_mm.default") == nullptr, kFloat8);
  const Node* product = made_by(head.product, "aten.mm.default");
  require(product != nullptr, kNoProduct);
  const Node* transposed = made_by(operand(*product, 1), "aten.t.default");
  require(transposed != nullptr, kNoProduct);
  head.h = operand(*product, 0);
  head.weight = operand(*transposed, 0);
  require(head.h != kNoValue && head.weight != kNoValue, kNoProduct);
  head.module = product->module;
  const DType dtype = type(head.h).dtype;
  head.sums = dtype == DType::f64 ? DType::f64 : DType::f32;
  require(is_matrix(type(head.h)) && is_matrix(type(head.weight)) &&
              (dtype == head.sums || dtype == DType::bf16) && type(head.weight).dtype == dtype,
          kNoProduct);
  return head;
}

HeadBackward LossMatcher::backward_of(ValueId grad_logits, const LossHead& head) const {
  if (head.logits != head.product) {
    const Node& cast = node(only_reader(grad_logits, kToCopy));
    require(is_cast(cast, type(head.product).dtype), kOtherBackward);
    grad_logits = cast.results[0];
  }
  HeadBackward made;
  const NodeIndex to_h = reader(grad_logits, "aten.mm.default");
  const NodeIndex transposed = reader(grad_logits, "aten.t.default");
  require(readers(grad_logits).size() == 2 && to_h >= 0 && transposed >= 0, kOtherBackward);
  const NodeIndex to_weight = only_reader(node(transposed).results[0], "aten.mm.default");
  made.weight = operand(node(to_h), 1);
  made.h = operand(node(to_weight), 1);
  made.grad_h = node(to_h).results[0];
  made.grad_weight = node(to_weight).results[0];
  made.first = std::min(to_h, to_weight);
  require(operand(node(to_h), 0) == grad_logits && same_content(made.weight, head.weight) &&
              same_content(made.h, head.h) && type(made.grad_h) == type(head.h) &&
              type(made.grad_weight) == type(head.weight),
          kOtherBackward);
  return made;
}

// --- whole vocabularies ---

bool LossMatcher::begins_whole(NodeIndex i) const { return node(i).op == kCrossEntropy; }

WholeLoss LossMatcher::whole(NodeIndex i) const {
  const Node& sum = node(i);  // (logits, labels, ignored) -> the sum, and what the backward reads
  const auto* ignored = sum.args.size() == 3 ? std::get_if<std::int64_t>(&sum.args[2]) : nullptr;
  require(sum.results.size() == 3 && ignored != nullptr, kNoSum);
  WholeLoss loss{.head = head_of(operand(sum, 0)), .loss = i, .sum = sum.results[0]};
  loss.labels = operand(sum, 1);
  loss.ignored = *ignored;
  const ValueId largest = sum.results[1], powers = sum.results[2];
  if (readers(loss.head.logits).size() == 1) {
    require(readers(largest).empty() && readers(powers).empty(), kReadElsewhere);
    return loss;
  }
  constexpr std::string_view kBackward = "rondo.cross_entropy_backward.default";
  const NodeIndex of_loss = reader(loss.head.logits, kBackward);
  require(readers(loss.head.logits).size() == 2 && of_loss >= 0 &&
              only_reader(largest, kBackward) == of_loss && only_reader(powers, kBackward) == of_loss,
          kReadElsewhere);
  const Node& back = node(of_loss);  // (gradient, logits, labels, largest, sum, ignored)
  require(operand(back, 1) == loss.head.logits && same_content(operand(back, 2), loss.labels) &&
              operand(back, 3) == largest && operand(back, 4) == powers && is_number(back, 5, loss.ignored),
          kOtherBackward);
  find_seed(loss, operand(back, 0));
  loss.backward = backward_of(back.results[0], loss.head);
  return loss;
}

// The mean, and the gradient of the sum that it makes of one.
void LossMatcher::find_seed(WholeLoss& loss, ValueId gradient) const {
  require(readers(loss.sum).size() == 1, kNoMean);
  loss.mean = readers(loss.sum)[0];
  const Node& mean = node(loss.mean);
  require(mean.op == "aten.div.Tensor" && operand(mean, 0) == loss.sum && operand(mean, 1) != kNoValue,
          kNoMean);
  loss.valid = operand(mean, 1);
  const Node* divided = made_by(gradient, "aten.div.Tensor");
  require(divided != nullptr && operand(*divided, 1) == loss.valid, kNoMean);
  const Node* ones = made_by(operand(*divided, 0), "aten.ones_like.default");
  require(ones != nullptr && operand(*ones, 0) == mean.results[0] &&
              type(loss.valid) == type(mean.results[0]) && type(loss.valid) == type(ones->results[0]),
          kNoMean);
  loss.ones = def_use_.maker(ones->results[0]);
}

// --- shards of a vocabulary ---

bool LossMatcher::begins_shard(NodeIndex i) const {
  if (node(i).op != kAmax || !is_over_classes(node(i)) || type(operand(node(i), 0)).sizes.size() != 2)
    return false;
  return std::any_of(readers(operand(node(i), 0)).begin(), readers(operand(node(i), 0)).end(),
                     [&](NodeIndex r) { return node(r).op == "aten.gather.default"; });
}

ShardLoss LossMatcher::shard(NodeIndex amax) const {
  const ValueId logits = operand(node(amax), 0);
  require(made_by(logits, "aten.masked_fill.Scalar") == nullptr, "its vocabulary is padded");
  ShardLoss loss{.head = head_of(logits), .amax = amax, .largest = node(amax).results[0]};
  require(type(logits).dtype == loss.head.sums, kNoProduct);
  const NodeIndex gather = reader(logits, "aten.gather.default"), less = reader(logits, "aten.sub.Tensor");
  require(readers(logits).size() == 3 && gather >= 0 && less >= 0 && operand(node(less), 0) == logits &&
              is_number(node(less), 2, 1),
          kReadElsewhere);
  loss.largest_column = operand(node(less), 1);
  loss.largest_of_all = column_source(loss.largest_column);
  const NodeIndex exp = only_reader(node(less).results[0], "aten.exp.default");
  const ValueId powers = node(exp).results[0];
  loss.sum_node = reader(powers, "aten.sum.dim_IntList");
  require(loss.largest_of_all != kNoValue && loss.sum_node >= 0 && is_over_classes(node(loss.sum_node)),
          kNoSum);
  loss.sum = node(loss.sum_node).results[0];
  loss.place = operand(node(gather), 2);
  loss.logit = node(gather).results[0];
  require(is_number(node(gather), 1, 1) && is_matrix(type(loss.place)) && type(loss.place).sizes[1] == 1,
          kNoSum);
  if (readers(powers).size() > 1) find_gradients(loss, powers);
  return loss;
}

// powers / sum * gradient, less the gradient of its own at the label.
void LossMatcher::find_gradients(ShardLoss& loss, ValueId powers) const {
  const NodeIndex divided = reader(powers, "aten.div.Tensor");
  require(readers(powers).size() == 2 && divided >= 0 && operand(node(divided), 0) == powers, kReadElsewhere);
  const Node& scaled = node(only_reader(node(divided).results[0], "aten.mul.Tensor"));
  const Node& added = node(only_reader(scaled.results[0], "aten.scatter_add.default"));
  const Node* negated = made_by(operand(added, 3), "aten.neg.default");
  require(operand(scaled, 0) == node(divided).results[0] && operand(added, 0) == scaled.results[0] &&
              is_number(added, 1, 1) && negated != nullptr,
          kOtherBackward);
  loss.sum_column = operand(node(divided), 1);
  loss.gradient = operand(scaled, 1);
  loss.gradient_place = operand(added, 2);
  loss.place_gradient = operand(*negated, 0);
  for (ValueId column :
       {loss.largest_column, loss.sum_column, loss.gradient, loss.gradient_place, loss.place_gradient})
    require(column != kNoValue && is_matrix(type(column)) && type(column).sizes[1] == 1, kOtherBackward);
  loss.backward = backward_of(added.results[0], loss.head);
}

}  // namespace rondo::ir

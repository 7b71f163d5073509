// A weight is a value whose maker has a parameter's name as its module. The parameter connects
// forward and backward of a layer, since the backward may gather it again. The gradients of x are
// added two at a time. If that ends in one sum of only these gradients, one product can compute it.
#include "compiler/analysis/linear_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/analysis/fusion.h"
#include "compiler/analysis/parameters.h"
#include "compiler/ops/op.h"

namespace rondo::ir {
namespace {

class LinearFinder {
 public:
  LinearFinder(const Graph& graph, const DefUse& def_use)
      : graph_(graph), def_use_(def_use), parameters_(parameters_of_nodes(graph)) {
    for (NodeIndex i = 0; i < graph_.node_count(); ++i)
      if (is(i, kProduct, Phase::backward))
        if (const std::int32_t parameter = parameter_of(operand(node(i), 1)); parameter >= 0)
          of_input_[parameter].push_back(i);
  }

  std::vector<LinearGroup> run() const {
    std::vector<LinearGroup> result = groups();
    std::erase_if(result,
                  [&](LinearGroup& group) { return group.linears.size() < 2 || !match_backward(group); });
    return result;
  }

 private:
  const Node& node(NodeIndex i) const { return graph_.nodes[i]; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  ValueId result(NodeIndex i) const { return node(i).results[0]; }
  bool is(NodeIndex i, std::string_view op, Phase phase) const {
    return i != kNoNode && node(i).op == op && node(i).phase == phase;
  }
  bool is_matrix(ValueId id) const {
    return type(id).sizes.size() == 2 && type(id) == contiguous(type(id).dtype, type(id).sizes);
  }
  // Returns the parameter of which a value is a copy, or -1.
  std::int32_t parameter_of(ValueId id) const {
    const NodeIndex maker = def_use_.maker(id);
    return maker == kNoNode ? -1 : parameters_[maker];
  }

  std::vector<LinearGroup> groups() const {
    std::vector<LinearGroup> result;
    std::map<std::pair<ValueId, NodeIndex>, std::size_t> index;
    for (NodeIndex i = 0; i < graph_.node_count(); ++i) {
      const std::optional<Linear> linear = linear_at(i);
      if (!linear) continue;
      const ValueId x = operand(node(i), 0);
      NodeIndex unit = kNoNode;
      for (NodeIndex reads : def_use_.readers(linear->y))
        if (node(reads).op == kGatedUnit) unit = reads;
      const auto [at, is_new] = index.emplace(std::pair(x, unit), result.size());
      if (is_new) result.push_back({.x = x});
      result[at->second].linears.push_back(*linear);
    }
    return result;
  }

  // Matches x [T, D] times the transposed weight [N, D].
  std::optional<Linear> linear_at(NodeIndex i) const {
    if (!is(i, kProduct, Phase::forward)) return std::nullopt;
    const NodeIndex transposed = def_use_.maker(operand(node(i), 1));
    if (transposed == kNoNode || node(transposed).op != kTranspose) return std::nullopt;
    Linear linear{.forward = i, .weight = operand(node(transposed), 0), .y = result(i)};
    linear.parameter = parameter_of(linear.weight);
    if (linear.parameter < 0 || !is_matrix(linear.weight) || !is_matrix(linear.y)) return std::nullopt;
    return linear;
  }

  // Matches the backward of all layers. Returns false unless all have it in the same form, or none
  // has it.
  bool match_backward(LinearGroup& group) const {
    const auto has = [&](const Linear& linear) { return of_input_.contains(linear.parameter); };
    group.backward = std::any_of(group.linears.begin(), group.linears.end(), has);
    if (!group.backward) return true;
    for (Linear& linear : group.linears) {
      const auto products = of_input_.find(linear.parameter);
      if (products == of_input_.end() || products->second.size() != 1) return false;
      linear.of_input = products->second[0];
      linear.grad = operand(node(linear.of_input), 0);
      linear.backward_weight = operand(node(linear.of_input), 1);
      if (type(linear.grad) != type(linear.y) || type(linear.backward_weight) != type(linear.weight))
        return false;
      for (NodeIndex transposed : def_use_.readers(linear.grad))
        if (is(transposed, kTranspose, Phase::backward))
          for (NodeIndex reads : def_use_.readers(result(transposed)))
            if (is(reads, kProduct, Phase::backward) && operand(node(reads), 1) == group.x)
              linear.of_weight = reads;
      if (linear.of_weight == kNoNode || type(result(linear.of_weight)) != type(linear.weight)) return false;
    }
    group.merges_weight_gradients =
        std::none_of(group.linears.begin(), group.linears.end(),
                     [&](const Linear& linear) { return is_returned(result(linear.of_weight)); });
    return find_sums(group);
  }

  bool is_returned(ValueId id) const {
    for (NodeIndex i : def_use_.readers(id)) {
      if (node(i).op == kReturn) return true;
      if (facts(node(i).op).view != ViewKind::none && is_returned(result(i))) return true;
    }
    return false;
  }

  // Finds the sums of the gradients of x with each other. Returns true if one sum remains.
  bool find_sums(LinearGroup& group) const {
    std::vector<ValueId> left;
    for (const Linear& linear : group.linears) left.push_back(result(linear.of_input));
    const auto holds = [&](ValueId id) { return std::find(left.begin(), left.end(), id) != left.end(); };
    for (std::size_t i = 0; i < left.size() && left.size() > 1; ++i) {
      const NodeIndex sum = def_use_.only_reader(left[i]);
      const ValueId other = sum == kNoNode ? kNoValue : other_operand(node(sum), left[i]);
      if (other == kNoValue || other == left[i] || !holds(other) || !is_sum(node(sum), left[i], other) ||
          def_use_.only_reader(other) != sum || type(result(sum)) != type(left[i]))
        continue;
      group.sums.push_back(sum);
      left[i] = result(sum);
      std::erase(left, other);
      i = static_cast<std::size_t>(-1);  // restart
    }
    return left.size() == 1;
  }

  const Graph& graph_;
  const DefUse& def_use_;
  IdMap<std::int32_t> parameters_;                           // by node
  std::map<std::int32_t, std::vector<NodeIndex>> of_input_;  // backward products by parameter
};

}  // namespace

bool LinearGroup::reads_forward_weights() const {
  return backward && std::all_of(linears.begin(), linears.end(),
                                 [](const Linear& l) { return l.backward_weight == l.weight; });
}

std::vector<LinearGroup> linear_groups(const Graph& graph, const DefUse& def_use) {
  return LinearFinder(graph, def_use).run();
}

}  // namespace rondo::ir

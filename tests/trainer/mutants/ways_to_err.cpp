// Applies mistakes to a graph. Each function finds its node by op, module and phase, and throws if
// the graph has no such node. The changed graph remains valid, so only rules about ranks can
// refuse it.
#include "tests/trainer/mutants/ways_to_err.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace rondo::mistake {

Make left_out(Place at) {
  return [=](Patient& p) { p.leave_out(p.find(at)); };
}
Make over(Place at, const char* group) {
  return [=](Patient& p) { p.name_group(p.find(at), group); };
}
Make maximum(Place at) {
  return [=](Patient& p) { p.name_reduction(p.find(at), "max"); };
}
Make again(Place at, const char* group) {
  return [=](Patient& p) { p.sum_again(p.find(at), group); };
}
Make scaled(Place at, double factor) {
  return [=](Patient& p) { p.scale(p.find(at), factor); };
}
Make skipped(Place at, std::size_t argument) {
  return [=](Patient& p) { p.skip(p.find(at), argument); };
}

std::vector<ValueId>& list(Patient& p, std::string_view op, std::size_t argument) {
  const char* module = op == kAdam ? "optimizer" : "gradient_norm";
  return std::get<UseList>(p.graph.nodes[p.find({op, module, U})].args[argument]).values;
}
std::size_t place_of(const Patient& p, const std::string& parameter) {
  std::size_t place = 0;
  for (const ir::Input& input : p.graph.inputs) {
    if (input.name == parameter) return place;
    place += input.kind == ir::InputKind::parameter;
  }
  throw std::runtime_error(p.graph.name + " has no parameter " + parameter);
}
Make exchanged(std::size_t argument, const char* a, const char* b, bool in_norm) {
  return [=](Patient& p) {
    auto& values = list(p, kAdam, argument);
    std::swap(values[place_of(p, a)], values[place_of(p, b)]);
    if (!in_norm) return;
    auto& squared = list(p, kSquares, 0);
    std::swap(squared[place_of(p, a)], squared[place_of(p, b)]);
  };
}
Make gathered_for_each_other(const std::string& a, const std::string& b, Phase phase) {
  return [=](Patient& p) {
    std::swap(p.graph.nodes[p.find({kGather, a, phase})].args[0],
              p.graph.nodes[p.find({kGather, b, phase})].args[0]);
  };
}
Make number(std::size_t argument, const char* op, std::optional<double> other) {
  return [=](Patient& p) {
    const NodeIndex adam = p.find({kAdam, "optimizer", U});
    const ValueId own = ir::operand(p.graph.nodes[adam], argument);
    const Argument second = other ? Argument(*other) : Argument(Use{own});
    const ir::TensorType type = p.graph.value(own).type;
    const ValueId result = p.insert(adam, op, {Use{own}, second}, type);
    p.graph.nodes[adam + 1].args[argument] = Use{result};
  };
}

Make all_gradients_scaled(double factor, bool before_norm) {
  return [=](Patient& p) {
    std::vector<ValueId> gradients = list(p, kAdam, kGradients);
    for (ValueId& gradient : gradients) {
      const NodeIndex at =
          p.find({before_norm ? kSquares : kAdam, before_norm ? "gradient_norm" : "optimizer", U});
      const ir::TensorType type = p.graph.value(gradient).type;
      gradient = p.insert(at, "aten.mul.Scalar", {Use{gradient}, factor}, type);
    }
    list(p, kAdam, kGradients) = gradients;
    if (before_norm) list(p, kSquares, 0) = gradients;
  };
}

Make norm_takes(const char* counted, const char* left_out) {
  return [=](Patient& p) {
    auto& squared = list(p, kSquares, 0);
    squared[place_of(p, left_out)] = squared[place_of(p, counted)];
  };
}

// Rotates rows of a table, or labels of each sequence, by one place; the first becomes the last.
static ValueId turned(Patient& p, NodeIndex at, ValueId of, std::int64_t dim) {
  const ir::TensorType type = p.graph.value(of).type;
  const std::int64_t size = type.sizes[static_cast<std::size_t>(dim)];
  const auto slice = [&](NodeIndex where, std::int64_t begin, std::int64_t end) {
    ir::TensorType piece = type;
    piece.sizes[static_cast<std::size_t>(dim)] = end - begin;
    return p.insert(where, "aten.slice.Tensor", {Use{of}, dim, begin, end, std::int64_t{1}}, piece, of);
  };
  const ValueId rest = slice(at, 1, size), first = slice(at + 1, 0, 1);
  const ValueId rotated = p.insert(at + 2, "aten.cat.default", {UseList{{rest, first}}, dim}, type);
  p.replace(of, rotated, at + 3);
  return rotated;
}
ValueId input(const Patient& p, std::string_view name) {
  for (const ir::Input& input : p.graph.inputs)
    if (input.name == name) return input.value;
  throw std::runtime_error(p.graph.name + " has no input " + std::string(name));
}
Make input_turned(const char* name, std::int64_t dim) {
  return [=](Patient& p) { turned(p, 0, input(p, name), dim); };
}
void turn_on_one_rank(Patient& p) {
  const ValueId table = input(p, "rope.cos");
  const auto& ids = p.graph.nodes[p.find({"rondo.local_ids", "tok_embeddings", F})].args;
  const std::int64_t rank = std::get<std::int64_t>(ids[1]) / std::get<std::int64_t>(ids[2]);
  const ir::TensorType type = p.graph.value(table).type;
  const ValueId other = turned(p, 0, table, 0);
  ir::TensorType both = ir::contiguous(type.dtype, {2, type.sizes[0], type.sizes[1]});
  const ValueId stacked = p.insert(3, "aten.stack.default", {UseList{{table, other}}, std::int64_t{0}}, both);
  const ValueId own =
      p.insert(4, "rondo.local_part.default", {Use{stacked}, std::int64_t{0}, rank, std::string("tp")}, type);
  p.replace(other, own, 5);
}

void add_residual_before_the_sum(Patient& p) {
  NodeIndex scatter = p.find({kScatter, "layers.0.attention", F});
  const NodeIndex sum = p.find({"aten.add.Tensor", "layers.0", F});
  const ValueId residual = ir::operand(p.graph.nodes[sum], 0),
                summand = ir::operand(p.graph.nodes[scatter], 0);
  p.skip(sum, 1);
  const ValueId whole = p.insert_gather(scatter, residual, 2, "tp");
  const ValueId added = p.insert(scatter + 2, "aten.add.Tensor", {Use{summand}, Use{whole}, std::int64_t{1}},
                                 p.graph.value(summand).type);
  p.graph.nodes[scatter + 3].args[0] = Use{added};
}

void sum_before_activation(Patient& p) {
  const NodeIndex swiglu = p.find({"rondo.swiglu", "layers.0.feed_forward", F});
  const ValueId sum = p.insert_sum(swiglu, ir::operand(p.graph.nodes[swiglu], 0), "tp");
  p.graph.nodes[swiglu + 2].args[0] = Use{sum};
}

void exchange_biases(Patient& p) {
  std::vector<std::size_t> biases;
  for (std::size_t i = 0; i < p.graph.outputs.size(); ++i)
    if (p.graph.outputs[i].name.ends_with(".expert_bias")) biases.push_back(i);
  std::swap(p.graph.return_node().args.at(biases.at(0)), p.graph.return_node().args.at(biases.at(1)));
}

NodeIndex addition_to(const Patient& p, std::string_view sum) {
  for (NodeIndex i = 0; i < p.graph.node_count(); ++i)
    if (p.graph.nodes[i].op == "aten.add.Tensor" && ir::operand(p.graph.nodes[i], 0) == input(p, sum))
      return i;
  throw std::runtime_error(p.graph.name + " adds nothing to " + std::string(sum));
}

void keep_sum(Patient& p) {
  for (std::size_t i = 0; i < p.graph.outputs.size(); ++i)
    if (p.graph.outputs[i].name == "new.grad.layers.0.attention.wq.weight")
      p.graph.return_node().args[i] = Use{input(p, "grad.layers.0.attention.wq.weight")};
}

void take_neighbours_experts(Patient& p) {
  auto& ids = p.graph.nodes[p.find({"rondo.local_ids", "layers.1.moe.dispatch", F})].args;
  auto& first = std::get<std::int64_t>(ids[1]);
  const std::int64_t count = std::get<std::int64_t>(ids[2]);
  first = (first + count) % (4 * count);
}

void replicas_are_not_summed(Patient& p) {
  for (NodeIndex i = 0; i < p.graph.node_count(); ++i)
    if (p.graph.nodes[i].op == kReduce && p.graph.nodes[i].module.ends_with(".weight")) p.leave_out(i);
}

void adam_takes_a_summand(Patient& p) {
  list(p, kAdam, kGradients)[place_of(p, "layers.0.attention.wq.weight")] =
      input(p, "grad.layers.0.attention.wq.weight");
}

Make pieces_exchanged(Phase phase, std::size_t dims) {
  return [=](Patient& p) {
    for (ir::Node& node : p.graph.nodes) {
      if (!node.op.starts_with("aten.split_with_sizes") || node.phase != phase || node.origin.empty() ||
          p.graph.value(node.results[0]).type.sizes.size() != dims)
        continue;
      for (std::size_t k = 0; k + 1 < node.results.size(); ++k)
        if (p.graph.value(node.results[k]).type == p.graph.value(node.results[k + 1]).type)
          return std::swap(node.results[k], node.results[k + 1]);
    }
    throw std::runtime_error(p.graph.name + " takes no bucket apart");
  };
}
void put_together_otherwise(Patient& p) {
  for (ir::Node& node : p.graph.nodes) {
    if (node.op != "aten.cat.default" || node.phase != B || node.origin.empty()) continue;
    auto& values = std::get<UseList>(node.args[0]).values;
    for (std::size_t k = 0; k + 1 < values.size(); ++k)
      if (p.graph.value(values[k]).type == p.graph.value(values[k + 1]).type)
        return std::swap(values[k], values[k + 1]);
  }
  throw std::runtime_error(p.graph.name + " puts no bucket together");
}

Make parts_exchanged(Place at) {
  return [=](Patient& p) {
    auto& values = std::get<UseList>(p.graph.nodes[p.find(at)].args[0]).values;
    std::swap(values.at(1), values.at(2));
  };
}

Make input_scaled(const std::string& name, double factor) {
  return [=](Patient& p) {
    const ValueId came = input(p, name);
    NodeIndex first = 0;
    const auto reads = [&](const ir::Node& node) {
      bool matches = false;
      for_each_operand(node, [&](ValueId id) { matches = matches || id == came; });
      return matches;
    };
    while (!reads(p.graph.nodes[first])) ++first;
    const ValueId scaled = p.insert(first, "aten.mul.Scalar", {Use{came}, factor}, p.graph.value(came).type);
    p.replace(came, scaled, first + 1);
  };
}

Make sends_what_came(const std::string& sent, const std::string& came) {
  return [=](Patient& p) {
    const NodeIndex end = p.graph.node_count() - 1;
    const ValueId from = input(p, came);
    const ValueId copy =
        p.insert(end, "aten.clone.default", {Use{from}, ir::None{}}, p.graph.value(from).type);
    for (std::size_t i = 0; i < p.graph.outputs.size(); ++i)
      if (p.graph.outputs[i].name == "new." + sent) p.graph.return_node().args[i] = Use{copy};
  };
}

pipeline::Action& action(PipelineLayout& layout, std::size_t rank, const pipeline::Action& wanted) {
  std::vector<pipeline::Action>& actions = layout.program.ranks.at(rank);
  const auto match = std::find(actions.begin(), actions.end(), wanted);
  if (match == actions.end()) throw std::runtime_error("no such action: " + print(wanted));
  return *match;
}

}  // namespace rondo::mistake

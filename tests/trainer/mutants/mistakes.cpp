// A mistake is a row: where, what, and one of the things that can go wrong (patient.h), or a few lines of its
// own. Modules are those of the first layers, which the others repeat.
#include "tests/trainer/mutants/mistakes.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "compiler/ir/op_facts.h"

namespace rondo {
namespace {

using ir::Argument, ir::NodeIndex, ir::Patient, ir::Place, ir::Use, ir::UseList, ir::ValueId;
using Make = std::function<void(Patient&)>;

constexpr Phase F = Phase::forward, B = Phase::backward, U = Phase::update;
constexpr std::string_view kScatter = ir::kReduceScatter, kGather = ir::kAllGather, kReduce = ir::kAllReduce;
constexpr std::string_view kAdam = "rondo.adamw", kSquares = "rondo.sums_of_squares";
constexpr std::string_view kStep = "train_step";
// Arguments of AdamW behind parameters and moments.
enum : std::size_t { kGradients = 3, kCount = 4, kRate = 5, kClip = 6 };

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
Make skipped(Place at, std::size_t argument = 0) {
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
// In lists of AdamW, and in that of the norm where `in_norm` says so.
Make exchanged(std::size_t argument, const char* a, const char* b, bool in_norm = false) {
  return [=](Patient& p) {
    auto& values = list(p, kAdam, argument);
    std::swap(values[place_of(p, a)], values[place_of(p, b)]);
    if (!in_norm) return;
    auto& squared = list(p, kSquares, 0);
    std::swap(squared[place_of(p, a)], squared[place_of(p, b)]);
  };
}
// The parameters that are gathered in two modules.
Make gathered_for_each_other(const std::string& a, const std::string& b, Phase phase) {
  return [=](Patient& p) {
    std::swap(p.graph.nodes[p.find({kGather, a, phase})].args[0],
              p.graph.nodes[p.find({kGather, b, phase})].args[0]);
  };
}
// What AdamW takes as a number becomes `op` of it and itself, or of it and a number.
Make number(std::size_t argument, const char* op, std::optional<double> other = {}) {
  return [=](Patient& p) {
    const NodeIndex adam = p.find({kAdam, "optimizer", U});
    const ValueId own = ir::operand(p.graph.nodes[adam], argument);
    const Argument second = other ? Argument(*other) : Argument(Use{own});
    const ir::TensorType type = p.graph.value(own).type;
    const ValueId made = p.insert(adam, op, {Use{own}, second}, type);
    p.graph.nodes[adam + 1].args[argument] = Use{made};
  };
}

// Before the optimizer, or before the norm as well.
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

// Rows of a table, or labels of each sequence, one place too early; the last ones are the first.
ValueId turned(Patient& p, NodeIndex at, ValueId of, std::int64_t dim) {
  const ir::TensorType type = p.graph.value(of).type;
  const std::int64_t size = type.sizes[static_cast<std::size_t>(dim)];
  const auto slice = [&](NodeIndex where, std::int64_t begin, std::int64_t end) {
    ir::TensorType piece = type;
    piece.sizes[static_cast<std::size_t>(dim)] = end - begin;
    return p.insert(where, "aten.slice.Tensor", {Use{of}, dim, begin, end, std::int64_t{1}}, piece, of);
  };
  const ValueId rest = slice(at, 1, size), first = slice(at + 1, 0, 1);
  const ValueId made = p.insert(at + 2, "aten.cat.default", {UseList{{rest, first}}, dim}, type);
  p.replace(of, made, at + 3);
  return made;
}
ValueId input(const Patient& p, std::string_view name) {
  for (const ir::Input& one : p.graph.inputs)
    if (one.name == name) return one.value;
  throw std::runtime_error(p.graph.name + " has no input " + std::string(name));
}
Make input_turned(const char* name, std::int64_t dim) {
  return [=](Patient& p) { turned(p, 0, input(p, name), dim); };
}
// Positions are off by one on the second rank of tp.
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

// The biases of the routers of two layers.
void exchange_biases(Patient& p) {
  std::vector<std::size_t> biases;
  for (std::size_t i = 0; i < p.graph.outputs.size(); ++i)
    if (p.graph.outputs[i].name.ends_with(".expert_bias")) biases.push_back(i);
  std::swap(p.graph.return_node().args.at(biases.at(0)), p.graph.return_node().args.at(biases.at(1)));
}

// Where a microbatch is added to what its predecessors brought.
NodeIndex addition_to(const Patient& p, std::string_view sum) {
  for (NodeIndex i = 0; i < p.graph.node_count(); ++i)
    if (p.graph.nodes[i].module == "accumulate" && ir::operand(p.graph.nodes[i], 0) == input(p, sum))
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

// The first node of the phase that takes a bucket apart, with two pieces of one type.
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
// The first bucket of gradients that is put together, with two pieces of one type.
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

const std::string kWq = "layers.0.attention.wq", kWqWeight = kWq + ".weight";
const std::string kFeed = "layers.0.feed_forward", kAttention = "layers.0.attention";
const std::string kMoe = "layers.1.moe", kExpertsW1 = kMoe + ".experts.w1";

std::vector<Mistake> of_tensor_parallelism() {
  const auto row = [](const char* name, Make make) {
    return Mistake{"llama tp", kStep, name, std::move(make)};
  };
  const auto late = [](const char* name, Make make) {
    return Mistake{"llama tp", kStep, name, std::move(make), true};
  };
  return {
      row("embedding: rows of other ranks are not added", left_out({kScatter, "tok_embeddings", F})),
      row("embedding: rows are added over dp", over({kScatter, "tok_embeddings", F}, "dp")),
      row("embedding: ids of other ranks find rows", skipped({"aten.masked_fill", "tok_embeddings", F})),
      row("embedding: ids of other ranks have gradients", skipped({"aten.masked_fill", "tok_embeddings", B})),
      row("embedding: ids are those of the whole table", skipped({"rondo.local_ids", "tok_embeddings", F})),
      row("attention: tokens are not gathered", left_out({kGather, kAttention, F})),
      row("attention: outputs are not added", left_out({kScatter, kAttention, F})),
      row("attention: outputs are added over dp", over({kScatter, kAttention, F}, "dp")),
      row("attention: outputs are added twice", again({kScatter, kAttention, F}, "tp")),
      row("attention: gradients of tokens are not added", left_out({kScatter, kAttention, B})),
      row("attention: gradients of outputs are not gathered", left_out({kGather, kAttention, B})),
      row("attention: the residual is added by each rank", add_residual_before_the_sum),
      row("attention: a branch has no gradient", skipped({"aten.add", "layers.0.attention.wk", B})),
      row("attention: positions are off by one on a rank", turn_on_one_rank),
      row("attention: positions are off by one on all ranks", input_turned("rope.cos", 0)),
      row("feed-forward: gradients of tokens are added over dp", over({kScatter, kFeed, B}, "dp")),
      row("feed-forward: a sum comes before the activation", sum_before_activation),
      row("norm: its gradient is not added", left_out({kScatter, kAttention + "_norm.weight", B})),
      row("norm: its gradient is added twice", again({kScatter, kAttention + "_norm.weight", B}, "dp_tp")),
      row("norm: its gradient counts each rank of tp", scaled({kScatter, kAttention + "_norm.weight", B}, 2)),
      row("wq: its gradient is added over tp", over({kScatter, kWqWeight, B}, "tp")),
      row("wq: its gradient is not added", left_out({kScatter, kWqWeight, B})),
      row("wq: its gradient is added twice", again({kScatter, kWqWeight, B}, "dp")),
      row("wq: its gradient is the largest", maximum({kScatter, kWqWeight, B})),
      row("wq: its gradient is divided by the ranks of dp", scaled({"aten.mm", kWq, B, 1}, 0.5)),
      row("output: its gradient is added over tp, too", again({kScatter, "output.weight", B}, "tp")),
      row("output: gradients of tokens are not added", left_out({kScatter, "output", B})),
      row("all gradients are divided by the ranks of dp", all_gradients_scaled(0.5, true)),
      row("all gradients are divided once more behind the norm", all_gradients_scaled(0.5, false)),
      row("loss: divided by the rank's own tokens", left_out({kReduce, "loss", F, 2})),
      row("loss: divided by tokens that each rank of tp has counted", over({kReduce, "loss", F, 2}, "dp_tp")),
      row("loss: counts each rank of tp", skipped({"aten.div", "gradient_norm", U})),
      row("loss: is divided by the ranks of tp twice", scaled({"aten.div", "gradient_norm", U}, 0.5)),
      row("loss: the largest logit is that of a part", left_out({kReduce, "loss", F, 0})),
      row("loss: exponentials are those of a part", left_out({kReduce, "loss", F, 1})),
      row("loss: exponentials are added over dp", over({kReduce, "loss", F, 1}, "dp")),
      row("loss: padding of the vocabulary counts", skipped({"aten.masked_fill", "loss", F, 0})),
      row("loss: labels of other ranks count", skipped({"aten.masked_fill", "loss", F, 1})),
      row("loss: labels are shifted by one", input_turned("labels", 1)),
      row("gradient norm: a gradient counts for another one", norm_takes("norm.weight", "output.weight")),
      row("gradient norm: is each rank's own", left_out({kReduce, "gradient_norm", U})),
      row("gradient norm: is that of dp", over({kReduce, "gradient_norm", U}, "dp")),
      row("clipping: twice", number(kClip, "aten.mul.Tensor")),
      row("clipping: not at all", number(kClip, "aten.div.Tensor")),
      row("AdamW: each step counts twice", number(kCount, "aten.mul.Scalar", 2)),
      row("AdamW: the rate is multiplied by the ranks", number(kRate, "aten.mul.Scalar", 4)),
      row("AdamW: w1 and w3 take each other's gradient",
          exchanged(kGradients, "layers.0.feed_forward.w1.weight", "layers.0.feed_forward.w3.weight")),
      row("AdamW: w1 and w3 take each other's moment",
          exchanged(1, "layers.0.feed_forward.w1.weight", "layers.0.feed_forward.w3.weight")),
      row("w1 and w3 are gathered for each other",
          gathered_for_each_other(kFeed + ".w1.weight", kFeed + ".w3.weight", F)),
      row("w1 and w3 are gathered for each other in the backward",
          gathered_for_each_other(kFeed + ".w1.weight", kFeed + ".w3.weight", B)),
      late("bucket: two gathered parameters change places", pieces_exchanged(F, 2)),
      late("bucket: two gathered parameters change places in the backward", pieces_exchanged(B, 2)),
      late("bucket: two reduced gradients change places", pieces_exchanged(B, 1)),
      late("bucket: two gradients are put in each other's place", put_together_otherwise),
  };
}

std::vector<Mistake> of_replicas() {
  const auto row = [](std::string_view function, const char* name, Make make) {
    return Mistake{"llama hsdp", function, name, std::move(make)};
  };
  constexpr std::string_view kAccumulate = "accumulate", kUpdate = "update";
  return {
      row(kUpdate, "replicas: wq's gradient is not added", left_out({kReduce, kWqWeight, U})),
      row(kUpdate, "replicas: no gradient is added", replicas_are_not_summed),
      row(kUpdate, "replicas: wq's gradient is added twice", again({kReduce, kWqWeight, U}, "dp_replicate")),
      row(kUpdate, "replicas: wq's gradient is added over dp_shard",
          over({kReduce, kWqWeight, U}, "dp_shard")),
      row(kUpdate, "replicas: the largest gradient is taken", maximum({kReduce, kWqWeight, U})),
      row(kUpdate, "replicas: AdamW takes wq's gradient of one", adam_takes_a_summand),
      row(kAccumulate, "replicas: wq's gradient is added in each microbatch, too",
          again({kScatter, kWqWeight, B}, "dp_replicate")),
      row(kAccumulate, "accumulation: the last microbatch replaces the others",
          [](Patient& p) { p.skip(addition_to(p, "grad." + kWqWeight), 1); }),
      row(kAccumulate, "accumulation: a microbatch is not added",
          [](Patient& p) { p.skip(addition_to(p, "grad." + kWqWeight), 0); }),
      row(kAccumulate, "accumulation: a microbatch counts twice",
          [](Patient& p) { p.graph.nodes[addition_to(p, "grad." + kWqWeight)].args[2] = std::int64_t{2}; }),
      row(kAccumulate, "accumulation: gradients are divided by the microbatches",
          scaled({"aten.div.Tensor", "loss", B}, 0.5)),
      row(kAccumulate, "accumulation: the loss is that of the last microbatch",
          [](Patient& p) { p.skip(addition_to(p, "loss_sum"), 1); }),
      row(kUpdate, "accumulation: a sum is not cleared", keep_sum),
      row(kAccumulate, "loss: divided by the tokens of the rank's own documents",
          left_out({kReduce, "loss", F, 0})),
      row(kAccumulate, "loss: divided by the tokens of one replica",
          over({kReduce, "loss", F, 0}, "dp_shard")),
      row(kUpdate, "gradient norm: counts each replica", skipped({"aten.div.Scalar", "gradient_norm", U})),
      row(kUpdate, "gradient norm: is that of dp_shard, divided by replicas",
          over({kReduce, "gradient_norm", U}, "dp_shard")),
  };
}

std::vector<Mistake> of_experts() {
  const auto row = [](const char* name, Make make) {
    return Mistake{"experts", kStep, name, std::move(make)};
  };
  return {
      row("router: its bias follows the rank's own counts", left_out({kReduce, "load_balance", U})),
      row("router: its bias follows the counts of dp", over({kReduce, "load_balance", U}, "dp")),
      row("router: its bias follows counts that are added twice", again({kReduce, "load_balance", U}, "tp")),
      row("router: two layers take each other's bias", exchange_biases),
      row("router: its gradient is not added", left_out({kScatter, kMoe + ".router.gate.weight", B})),
      row("router: gradients of scores are not added", left_out({kScatter, kMoe + ".combine", B})),
      row("experts: outputs are not added", left_out({kScatter, kMoe + ".combine", F})),
      row("experts: gradients of tokens are not added", left_out({kScatter, kMoe + ".dispatch", B})),
      row("experts: tokens are not gathered", left_out({kGather, kMoe + ".dispatch", F, 1})),
      row("experts: a rank takes those of its neighbour", take_neighbours_experts),
      row("experts: w1's gradient is added over ranks with other experts",
          again({"aten.view", kExpertsW1 + ".weight", B}, "ep")),
      row("experts: w1's gradient is divided by the ranks of ep",
          scaled({"rondo.grouped_mm", kExpertsW1, B, 1}, 0.25)),
      row("shared experts: outputs are not added", left_out({kScatter, kMoe + ".shared_experts", F})),
      row("shared experts: gradients of tokens are not added",
          left_out({kScatter, kMoe + ".shared_experts", B})),
      row("shared experts: outputs are added over dp", over({kScatter, kMoe + ".shared_experts", F}, "dp")),
      row("latents: the gradient of their norm is not added",
          left_out({kScatter, kAttention + ".kv_norm.weight", B})),
      row("latents: they are not gathered", left_out({kGather, kAttention, F, 1})),
      row("AdamW: the shared w1 and w3 take each other's gradient",
          exchanged(kGradients, "layers.1.moe.shared_experts.w1.weight",
                    "layers.1.moe.shared_experts.w3.weight", /*in_norm=*/true)),
  };
}

std::vector<Mistake> of_few_experts() {
  const auto row = [](const char* name, Make make) {
    return Mistake{"few experts", kStep, name, std::move(make)};
  };
  return {
      row("experts: w1's gradient is added over ep", over({kScatter, kExpertsW1 + ".weight", B}, "ep")),
      row("experts: w1's gradient is not added", left_out({kScatter, kExpertsW1 + ".weight", B})),
      row("experts: w1's gradient is added over ep, too", again({kScatter, kExpertsW1 + ".weight", B}, "ep")),
      row("experts: w1 is gathered over ep", over({kGather, kExpertsW1 + ".weight", F}, "ep")),
      row("experts: w1's gradient counts each rank of ep", scaled({"rondo.grouped_mm", kExpertsW1, B, 1}, 2)),
      row("experts: counts are not exchanged", left_out({kGather, kMoe + ".dispatch", F})),
      row("router: its bias follows the counts of efsdp", over({kReduce, "load_balance", U}, "efsdp")),
      row("gradient norm: is that of ep", over({kReduce, "gradient_norm", U}, "ep")),
  };
}

}  // namespace

const std::vector<Mistake>& mistakes() {
  static const auto* const all = [] {
    auto* rows = new std::vector<Mistake>;
    for (const auto& some : {of_tensor_parallelism(), of_replicas(), of_experts(), of_few_experts()})
      rows->insert(rows->end(), some.begin(), some.end());
    return rows;
  }();
  return *all;
}

}  // namespace rondo

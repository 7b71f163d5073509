// Grows a graph by random steps: each adds a node or a small pattern of nodes whose operands are
// readable at that point (tests/compiler/ir/graph_builder.h). Phases advance in order.
#include "tests/compiler/passes/random_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "compiler/ops/op.h"
#include "tests/compiler/ir/graph_builder.h"

namespace rondo::ir {
namespace {

constexpr std::int64_t kToTheEnd = 9223372036854775807;
constexpr std::size_t kBlocks = 3;
constexpr std::int64_t kRanks = 2;

// Input ids: whole weights with their states, step, lr, two batch inputs, sharded weights with
// their states.
constexpr ValueId kStepInput = 9, kLr = 10, kFirstShard = 13;

class Generator : GraphBuilder {
 public:
  Generator(std::uint64_t seed, int nodes) : GraphBuilder(seed), target_(nodes), overwrites_(seed % 2 == 1) {
    graph_.name = "random";
  }

  Graph make() {
    add_inputs();
    while (static_cast<int>(graph_.nodes.size()) < target_) {
      const auto place = static_cast<int>(graph_.nodes.size()) * 3 / std::max(target_, 1);
      phase_ = std::max(phase_, static_cast<Phase>(std::min(place, 1)));
      module_ = fmt::format("layers.{}{}", block(), chance(2) ? ".attention" : "");
      if (chance(30)) wait_for_one();
      step();
    }
    while (!running_.empty()) wait_for_one();
    finish();
    return std::move(graph_);
  }

 private:
  // Up through the blocks in the forward, down in the backward, sometimes at random.
  std::size_t block() {
    const std::size_t ninth = graph_.nodes.size() * 9 / static_cast<std::size_t>(std::max(target_, 1));
    if (chance(6)) return pick(kBlocks);
    return ninth < kBlocks ? ninth : kBlocks - 1 - std::min((ninth - kBlocks) / 2, kBlocks - 1);
  }

  void add_inputs() {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      graph_.blocks.push_back(fmt::format("layers.{}", i));
      const std::string name = fmt::format("layers.{}.table.weight", i);
      add_input(name, InputKind::parameter, contiguous(DType::f32, {4, 6}));
      add_input(name + ".exp_avg", InputKind::optimizer, contiguous(DType::f32, {4, 6}));
      add_input(name + ".exp_avg_sq", InputKind::optimizer, contiguous(DType::f32, {4, 6}));
    }
    add_input("step", InputKind::optimizer, contiguous(DType::f32, {}));
    add_input("lr", InputKind::batch, contiguous(DType::f32, {}));
    add_input("square", InputKind::batch, contiguous(DType::f32, {4, 4}));
    add_input("x", InputKind::batch, contiguous(DType::bf16, {4, 6}));
    for (std::size_t i = 0; i < kBlocks; ++i) {
      const std::string name = shard_name(i);
      const TensorType shard = contiguous(DType::f32, {24 / kRanks});
      add_input(name, InputKind::parameter, shard, graph_.blocks[i]);
      add_input(name + ".exp_avg", InputKind::optimizer, shard);
      add_input(name + ".exp_avg_sq", InputKind::optimizer, shard);
    }
  }
  static std::string shard_name(std::size_t i) { return fmt::format("layers.{}.linear.weight", i); }

  void step() {
    switch (pick(10)) {
      case 0:
      case 1:
      case 2:
        return view();
      case 3:
      case 4:
        return pointwise_of_one();
      case 5:
      case 6:
        return pointwise_of_two();
      case 7:
        return copy();
      case 8:
        return chance(3) ? gather() : chance(2) ? product() : repeat();
      default:
        return rarer();
    }
  }

  void rarer() {
    switch (pick(4)) {
      case 0:
        return phase_ == Phase::backward && chance(2) ? reduce_gradient() : start_collective();
      case 1:
        return overwrite();
      case 2:
        return reduce();
      default: {
        const ValueId id = any_where(is_plain);
        if (id != kNoValue)
          emit("aten.rand_like.default", {Use{id}, None{}, None{}, None{}, None{}, None{}}, type(id));
      }
    }
  }

  void pointwise_of_one() {
    static const char* const ops[] = {"neg", "exp", "sigmoid", "silu", "rsqrt", "sqrt", "reciprocal"};
    const ValueId id = any_where(is_plain);
    if (id != kNoValue)
      emit(std::string("aten.") + ops[pick(std::size(ops))] + ".default", {Use{id}}, type(id));
  }

  void pointwise_of_two() {
    static const char* const ops[] = {"add", "sub", "mul", "div"};
    const ValueId a = any_where(is_plain);
    if (a == kNoValue) return;
    const ValueId b = any_where([&](const TensorType& t) { return t == type(a); });
    const std::size_t op = pick(std::size(ops));
    std::vector<Argument> args = {Use{a}};
    args.push_back(b == kNoValue || chance(4) ? Argument(WrappedNumber{chance(2) ? 0.5 : -0.0})
                                              : Argument(Use{b}));
    if (op < 2) args.push_back(std::int64_t{1});
    emit(std::string("aten.") + ops[op] + ".Tensor", std::move(args), type(a));
  }

  void view() {
    const ValueId id = any();
    const TensorType t = type(id);
    if (t.sizes.empty()) return;
    const auto with = [&](std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides) {
      return TensorType{t.dtype, std::move(sizes), std::move(strides)};
    };
    const std::int64_t rows = t.sizes[0];
    switch (pick(8)) {
      case 0:
        emit("aten.detach.default", {Use{id}}, t, id);
        return;
      case 1:
        emit("aten.alias.default", {Use{id}}, t, id);
        return;
      case 2:
        if (t.sizes.size() == 2)
          emit("aten.t.default", {Use{id}}, with({t.sizes[1], rows}, {t.strides[1], t.strides[0]}), id);
        return;
      case 3: {  // some or all rows
        const std::int64_t start = rows > 2 && chance(2) ? 1 : 0;
        std::vector<std::int64_t> sizes = t.sizes;
        sizes[0] -= start;
        emit("aten.slice.Tensor", {Use{id}, std::int64_t{0}, start, kToTheEnd, std::int64_t{1}},
             with(sizes, t.strides), id);
        return;
      }
      case 4: {
        std::vector<std::int64_t> sizes = t.sizes, strides = t.strides;
        sizes.insert(sizes.begin(), 1);
        strides.insert(strides.begin(), t.sizes[0] * t.strides[0]);
        if (sizes.size() < 4)
          emit("aten.unsqueeze.default", {Use{id}, std::int64_t{0}}, with(sizes, strides), id);
        return;
      }
      case 5:
        if (rows == 1 && t.sizes.size() > 1) {
          std::vector<std::int64_t> sizes = t.sizes, strides = t.strides;
          sizes[0] = 3;
          strides[0] = 0;
          emit("aten.expand.default", {Use{id}, sizes, false}, with(sizes, strides), id);
        }
        return;
      case 6:
        if (rows % 2 == 0) {
          std::vector<std::int64_t> sizes = t.sizes;
          sizes[0] /= 2;
          emit_many("aten.split.Tensor", {Use{id}, sizes[0], std::int64_t{0}},
                    {with(sizes, t.strides), with(sizes, t.strides)}, id);
        }
        return;
      default:
        reshape(id);
        return;
    }
  }

  void reshape(ValueId id) {
    const TensorType& t = type(id);
    if (!is_row_major(t)) return;
    const std::int64_t count = element_count(t);
    std::vector<std::int64_t> sizes = {count};
    if (count % 6 == 0 && chance(2)) sizes = {count / 6, 6};
    if (count % 4 == 0 && chance(3)) sizes = {4, count / 4};
    emit(chance(2) ? "aten.view.default" : "aten._unsafe_view.default", {Use{id}, sizes},
         contiguous(t.dtype, sizes), id);
  }

  void copy() {
    const ValueId id = any_where(is_plain);
    if (id == kNoValue) return;
    if (chance(4)) {
      emit("aten.clone.default", {Use{id}, None{}}, type(id));
      return;
    }
    static const DType dtypes[] = {DType::f32, DType::bf16, DType::f64};
    const DType first = type(id).dtype;
    ValueId last = cast(id, dtypes[pick(2)]);
    if (chance(2)) last = cast(last, dtypes[pick(3)]);
    if (chance(3)) cast(last, first);
  }
  void product() {
    const ValueId a = any_where([](const TensorType& t) { return t.sizes.size() == 2 && is_plain(t); });
    if (a == kNoValue) return;
    const ValueId b = any_where([&](const TensorType& t) {
      return t.sizes.size() == 2 && is_plain(t) && t.dtype == type(a).dtype && t.sizes[0] == type(a).sizes[1];
    });
    if (b != kNoValue)
      emit("aten.mm.default", {Use{a}, Use{b}},
           contiguous(type(a).dtype, {type(a).sizes[0], type(b).sizes[1]}));
  }

  void reduce() {
    const ValueId id = any_where([](const TensorType& t) { return t.sizes.size() == 2 && is_plain(t); });
    if (id == kNoValue) return;
    emit("aten.sum.dim_IntList", {Use{id}, std::vector<std::int64_t>{1}, false, None{}},
         contiguous(type(id).dtype, {type(id).sizes[0]}));
  }

  // Repeats a node, for common subexpressions.
  void repeat() {
    if (graph_.nodes.empty()) return;
    const Node node =
        graph_.nodes[graph_.nodes.size() - 1 - pick(std::min<std::size_t>(12, graph_.nodes.size()))];
    bool readable = facts(node.op).effect == Effect::none;
    for_each_operand(node, [&](ValueId id) { readable &= std::count(pool_.begin(), pool_.end(), id) > 0; });
    std::vector<TensorType> types;
    for (ValueId id : node.results) {
      readable &= graph_.value(id).writes == kNoValue;
      types.push_back(type(id));
    }
    if (readable) emit_many(node.op, node.args, types, graph_.value(node.results[0]).views);
  }

  void start_collective() {
    const ValueId id = any_where(is_row_major);
    if (id == kNoValue) return;
    const ValueId result = emit("_c10d_functional.all_reduce.default",
                                {Use{id}, std::string("sum"), std::string("dp")}, type(id));
    pool_.pop_back();
    running_.push_back({result, roots_[static_cast<std::size_t>(id)]});
  }

  // Gathers a sharded parameter: all nodes have the parameter's name.
  void gather() {
    const std::size_t i = block();
    module_ = shard_name(i);
    ValueId shard = kFirstShard + 3 * static_cast<ValueId>(i);
    if (chance(2)) shard = cast(shard, DType::bf16);
    const ValueId started =
        emit("_c10d_functional.all_gather_into_tensor.default", {Use{shard}, kRanks, std::string("dp")},
             contiguous(type(shard).dtype, {24}));
    pool_.pop_back();
    const ValueId whole = wait_for(started);
    emit("aten.view.default", {Use{whole}, std::vector<std::int64_t>{4, 6}},
         contiguous(type(shard).dtype, {4, 6}), whole);
  }

  // Reduces a gradient. The last one of each parameter is the optimizer's.
  void reduce_gradient() {
    ValueId gradient = any_where(
        [](const TensorType& t) { return is_plain(t) && is_row_major(t) && element_count(t) == 24; });
    if (gradient == kNoValue) return;
    const std::size_t i = block();
    gradient = emit("aten.exp.default", {Use{gradient}}, type(gradient));  // not shared
    module_ = shard_name(i);
    gradient = emit("aten.view.default", {Use{gradient}, std::vector<std::int64_t>{24}},
                    contiguous(type(gradient).dtype, {24}), gradient);
    if (type(gradient).dtype != DType::f32) gradient = cast(gradient, DType::f32);
    const ValueId started = emit("_c10d_functional.reduce_scatter_tensor.default",
                                 {Use{gradient}, std::string("sum"), kRanks, std::string("dp")},
                                 contiguous(DType::f32, {24 / kRanks}));
    pool_.pop_back();
    gradients_[i] = wait_for(started);
  }

  void wait_for_one() {
    if (running_.empty()) return;
    const std::size_t which = pick(running_.size());
    const ValueId id = running_[which].result;
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(which));
    wait_for(id);
  }

  void overwrite() {
    if (!overwrites_) return;
    const ValueId id = any_where(is_plain);
    if (id == kNoValue) return;
    const ValueId root = roots_[static_cast<std::size_t>(id)];
    for (const Input& input : graph_.inputs)
      if (input.value == root) return;
    for (const Running& running : running_)
      if (running.sent_root == root) return;
    std::erase_if(pool_, [&](ValueId other) { return roots_[static_cast<std::size_t>(other)] == root; });
    const ValueId result = emit("aten.neg_.default", {Use{id}}, type(id));
    graph_.value(result).writes = id;
    roots_.back() = root;
  }

  // One fused optimizer step for all parameters with a gradient.
  void optimize(const std::function<void(std::string, ValueId, int)>& output) {
    UseList weights, gradients, averages, squares;
    const auto add = [&](ValueId weight, ValueId gradient) {
      weights.values.push_back(weight);
      gradients.values.push_back(gradient);
      averages.values.push_back(weight + 1);
      squares.values.push_back(weight + 2);
    };
    const ValueId whole = any_where([](const TensorType& t) { return t == contiguous(DType::f32, {4, 6}); });
    if (whole != kNoValue) add(0, emit("aten.exp.default", {Use{whole}}, type(whole)));
    for (std::size_t i = 0; i < kBlocks; ++i)
      if (std::count(pool_.begin(), pool_.end(), gradients_[i]) > 0)
        add(kFirstShard + 3 * static_cast<ValueId>(i), gradients_[i]);
    if (weights.values.empty()) return;
    const ValueId next =
        emit("aten.add.Tensor", {Use{kStepInput}, WrappedNumber{std::int64_t{1}}, std::int64_t{1}},
             type(kStepInput));
    std::vector<TensorType> types;
    for (int list = 0; list < 3; ++list)
      for (ValueId weight : weights.values) types.push_back(type(weight));
    const std::vector<ValueId> updates =
        emit_many("rondo.adamw.default",
                  {weights, averages, squares, gradients, Use{next}, Use{kLr}, Use{kLr}, Use{kLr}, 0.9, 0.95,
                   1e-8, 0.1, true, std::vector<std::int64_t>()},
                  types);
    const std::size_t count = weights.values.size();
    for (std::size_t k = 0; k < count; ++k)
      for (std::size_t list = 0; list < 3; ++list) {
        const int input = weights.values[k] + static_cast<int>(list);
        output("new." + graph_.inputs[static_cast<std::size_t>(input)].name, updates[list * count + k],
               input);
      }
    output("new.step", next, kStepInput);
  }

  // Not an input: results are returned without a copy, and states are already updated.
  ValueId any_result() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      const ValueId id = any(), root = roots_[static_cast<std::size_t>(id)];
      if (std::none_of(graph_.inputs.begin(), graph_.inputs.end(),
                       [&](const Input& input) { return input.value == root; }))
        return id;
    }
    return emit("aten.clone.default", {Use{kStepInput}, None{}}, type(kStepInput));
  }

  void finish() {
    phase_ = Phase::update;
    module_ = "optimizer";
    Node result{
        .op = std::string(kReturn), .args = {}, .results = {}, .phase = phase_, .module = {}, .origin = {}};
    const auto output = [&](std::string name, ValueId id, int updates) {
      graph_.outputs.push_back({std::move(name), updates});
      result.args.emplace_back(Use{id});
    };
    optimize(output);
    for (int i = 0; i < 6; ++i) output(fmt::format("output.{}", i), any_result(), -1);
    graph_.nodes.push_back(std::move(result));
  }

  struct Running {
    ValueId result;
    ValueId sent_root;
  };

  int target_;
  bool overwrites_;
  std::vector<Running> running_;
  std::array<ValueId, kBlocks> gradients_ = {kNoValue, kNoValue, kNoValue};  // of the sharded weights
};

}  // namespace

std::vector<const PassInfo*> with_prerequisites(const PassInfo& pass) {
  std::vector<const PassInfo*> passes;
  Properties missing = pass.needs & ~kFunctional;
  for (const PassInfo& giver : all_passes()) {
    if ((giver.gives & missing) == 0) continue;
    missing &= ~giver.gives;
    for (const PassInfo* one : with_prerequisites(giver))
      if (std::find(passes.begin(), passes.end(), one) == passes.end()) passes.push_back(one);
  }
  passes.push_back(&pass);
  return passes;
}

Graph random_graph(std::uint64_t seed, int nodes) { return Generator(seed, nodes).make(); }

}  // namespace rondo::ir

#include "tests/compiler/random_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "compiler/op_facts.h"

namespace rondo::ir {
namespace {

constexpr std::int64_t kEnd = 9223372036854775807;

class Generator {
 public:
  Generator(std::uint64_t seed, int nodes) : random_(seed), target_(nodes) { graph_.name = "random"; }

  Graph make() {
    add_inputs();
    while (static_cast<int>(graph_.nodes.size()) < target_) {
      const auto place = static_cast<int>(graph_.nodes.size()) * 3 / std::max(target_, 1);
      phase_ = std::max(phase_, static_cast<Phase>(std::min(place, 1)));
      module_ = fmt::format("layers.{}{}", pick(3), chance(2) ? ".attention" : "");
      if (chance(30)) wait_for_one();
      step();
    }
    while (!running_.empty()) wait_for_one();
    finish();
    return std::move(graph_);
  }

 private:
  std::size_t pick(std::size_t n) { return random_() % n; }
  bool chance(std::size_t one_in) { return pick(one_in) == 0; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  void add_input(std::string name, InputKind kind, TensorType type) {
    const ValueId id = graph_.add_value({std::move(type)});
    graph_.inputs.push_back({std::move(name), kind, id});
    pool_.push_back(id);
    roots_.push_back(id);
  }

  void add_inputs() {
    for (int i = 0; i < 3; ++i) {
      const std::string name = fmt::format("layers.{}.weight", i);
      add_input(name, InputKind::parameter, contiguous(DType::f32, {4, 6}));
      add_input(name + ".exp_avg", InputKind::optimizer, contiguous(DType::f32, {4, 6}));
      add_input(name + ".exp_avg_sq", InputKind::optimizer, contiguous(DType::f32, {4, 6}));
    }
    add_input("step", InputKind::optimizer, contiguous(DType::f32, {}));
    add_input("lr", InputKind::batch, contiguous(DType::f32, {}));
    add_input("square", InputKind::batch, contiguous(DType::f32, {4, 4}));
    add_input("x", InputKind::batch, contiguous(DType::bf16, {4, 6}));
  }

  // A value that may be read: not overwritten, not awaited.
  ValueId any() {
    return pool_[chance(2) ? pick(pool_.size())
                           : pool_.size() - 1 - pick(std::min<std::size_t>(8, pool_.size()))];
  }
  template <class Condition>
  ValueId any_where(Condition condition) {
    for (int attempt = 0; attempt < 20; ++attempt)
      if (const ValueId id = any(); condition(type(id))) return id;
    return kNoValue;
  }
  static bool is_row_major(const TensorType& type) { return type.strides == contiguous_strides(type.sizes); }
  // Pointwise results of these have the strides of the operand, whatever the number of operands.
  static bool is_plain(const TensorType& t) {
    if (t.dtype != DType::f32 && t.dtype != DType::bf16) return false;
    return is_row_major(t) || (t.sizes.size() == 2 && t.sizes[0] > 1 && t.sizes[1] > 1 && t.strides[0] == 1 &&
                               t.strides[1] == t.sizes[0]);
  }

  ValueId emit(std::string op, std::vector<Argument> args, TensorType type, ValueId views = kNoValue) {
    return emit_many(std::move(op), std::move(args), {std::move(type)}, views)[0];
  }
  std::vector<ValueId> emit_many(std::string op, std::vector<Argument> args, std::vector<TensorType> types,
                                 ValueId views = kNoValue) {
    Node node{.op = std::move(op),
              .args = std::move(args),
              .results = {},
              .phase = phase_,
              .module = module_,
              .origin = {}};
    for (TensorType& t : types) {
      const ValueId id = graph_.add_value({.type = std::move(t), .views = views});
      roots_.push_back(views == kNoValue ? id : roots_[static_cast<std::size_t>(views)]);
      node.results.push_back(id);
      pool_.push_back(id);
    }
    graph_.nodes.push_back(node);
    return node.results;
  }

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
        return chance(2) ? product() : repeat();
      default:
        return rarer();
    }
  }

  void rarer() {
    switch (pick(4)) {
      case 0:
        return start_collective();
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
        emit("aten.slice.Tensor", {Use{id}, std::int64_t{0}, start, kEnd, std::int64_t{1}},
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
    if (chance(3)) {
      emit("aten.clone.default", {Use{id}, None{}}, type(id));
      return;
    }
    TensorType to = type(id);
    if (chance(2)) to.dtype = to.dtype == DType::f32 ? DType::bf16 : DType::f32;
    const DType dtype = to.dtype;
    emit("aten._to_copy.default", {Use{id}, dtype, None{}, None{}, None{}, false, None{}}, std::move(to));
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

  // The same node again, for common subexpressions.
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

  void wait_for_one() {
    if (running_.empty()) return;
    const std::size_t which = pick(running_.size());
    const ValueId id = running_[which].result;
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(which));
    emit("_c10d_functional.wait_tensor.default", {Use{id}}, type(id), id);
  }

  void overwrite() {
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

  void finish() {
    phase_ = Phase::update;
    module_ = "optimizer";
    Node result{
        .op = std::string(kReturn), .args = {}, .results = {}, .phase = phase_, .module = {}, .origin = {}};
    const auto output = [&](std::string name, ValueId id, int updates) {
      graph_.outputs.push_back({std::move(name), updates});
      result.args.emplace_back(Use{id});
    };
    const auto readable_inputs = [&](ValueId id) { return std::count(pool_.begin(), pool_.end(), id) > 0; };
    const ValueId gradient = any_where([](const TensorType& t) {
      return t == contiguous(DType::f32, {4, 6});
    });
    const bool optimizes = gradient != kNoValue && readable_inputs(gradient);
    if (optimizes) {
      const ValueId fresh = emit("aten.neg.default", {Use{gradient}}, type(gradient));
      const ValueId next =
          emit("aten.add.Tensor", {Use{9}, WrappedNumber{std::int64_t{1}}, std::int64_t{1}}, type(9));
      const std::vector<ValueId> updates =
          emit_many("aten._fused_adamw.tensor_lr",
                    {UseList{{0}}, UseList{{fresh}}, UseList{{1}}, UseList{{2}}, UseList{}, UseList{{next}},
                     Use{10}, 0.9, 0.95, 0.1, 1e-8, false, false, None{}, None{}},
                    {type(0), type(0), type(0), type(0)});
      output("weight", updates[0], 0);
      output("exp_avg", updates[2], 1);
      output("exp_avg_sq", updates[3], 2);
      output("step", next, 9);
    }
    for (int i = 0; i < 6; ++i) output(fmt::format("output.{}", i), any(), -1);
    graph_.nodes.push_back(std::move(result));
  }

  struct Running {
    ValueId result;
    ValueId sent_root;
  };

  std::mt19937_64 random_;
  int target_;
  Graph graph_;
  Phase phase_ = Phase::forward;
  std::string module_;
  std::vector<ValueId> pool_;   // may be read now
  std::vector<ValueId> roots_;  // the storage of each value
  std::vector<Running> running_;
};

}  // namespace

Graph random_graph(std::uint64_t seed, int nodes) { return Generator(seed, nodes).make(); }

}  // namespace rondo::ir

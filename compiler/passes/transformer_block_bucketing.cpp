// The parameters of a bucket (Input::bucket) are gathered by one collective, and their gradients reduced by one.
//
//   %3: f32[8] = all_gather_into_tensor(%0, 2, "dp")      %20: f32[10] = cat([%0, %1], 0)
//   %4: f32[8] views %3 = wait_tensor(%3)                 %21: f32[20] = all_gather_into_tensor(%20, 2, "dp")
//   ...                                             ->    %22: f32[20] views %21 = wait_tensor(%21)
//   %7: f32[12] = all_gather_into_tensor(%1, 2, "dp")     %23: f32[2,10] views %22 = view(%22, [2, 10])
//   %8: f32[12] views %7 = wait_tensor(%7)                %24: f32[2,4], %25: f32[2,6] = split_with_sizes_copy(
//                                                                                          %23, [4, 6], 1)
//                                                         (readers of %4 read %24 as [8], of %8 %25 as [12])
//
// A rank's part of the bucket is its shards one after the other, in the order of the parameters. Gathers stand
// where the first of them stood, reductions where the last did. Gathers of the forward and of the backward, and
// groups and dtypes, are buckets of their own. Only gathers of parameters and reduce-scatters of their gradients
// are touched: an all-reduce over replicas or a collective of activations is none.
//
// Reduced shards are copied out of the bucket, too: a kernel may sum in another order from an odd address, and the
// optimizer overwrites gradients, each of which then needs a storage of its own.
#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "compiler/op_facts.h"
#include "compiler/parameters.h"
#include "compiler/passes.h"
#include "compiler/schedule.h"

namespace rondo::ir {
namespace {

constexpr std::string_view kGather = "_c10d_functional.all_gather_into_tensor.default";
constexpr std::string_view kReduce = "_c10d_functional.reduce_scatter_tensor.default";
constexpr std::string_view kWait = "_c10d_functional.wait_tensor.default";
constexpr std::string_view kOrigin = "transformer_block_bucketing";

struct Member {
  std::int32_t parameter;  // index of the input: the order inside a bucket
  std::int32_t start, wait;
  auto operator<=>(const Member&) const = default;
};

// What may share a collective.
using Key = std::tuple<std::string, Phase, std::string_view, std::string, std::int64_t, DType>;

class Bucketing {
 public:
  explicit Bucketing(Graph& graph) : graph_(graph), replacement_(graph.values.size(), kNoValue) {}

  Notes run() {
    collect();
    places_ = present_places(graph_);
    Notes notes;
    std::int64_t before = 0, after = 0;
    for (auto& [key, members] : buckets_) {
      before += static_cast<std::int64_t>(members.size());
      ++after;
      if (members.size() == 1) continue;
      if (std::get<2>(key) == kReduce && depends_on_itself(members)) {
        after += static_cast<std::int64_t>(members.size()) - 1;
        notes.push_back(
            "bucket " + std::get<0>(key) +
            ": its gradients are reduced one by one, since one is computed from another's reduction");
        continue;
      }
      std::sort(members.begin(), members.end());
      std::get<2>(key) == kGather ? gather(key, members) : reduce(key, members);
    }
    finish();
    notes.insert(notes.begin(), "collectives of parameters: " + std::to_string(before) + " in " +
                                    std::to_string(after) + " buckets");
    return notes;
  }

 private:
  static std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
  const Node& node(std::int32_t i) const { return graph_.nodes[static_cast<std::size_t>(i)]; }
  ValueId operand(std::int32_t i) const { return std::get<Use>(node(i).args[0]).value; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  void collect() {
    const std::vector<std::int32_t> parameters = parameters_of_nodes(graph_);
    std::unordered_map<std::int32_t, std::int32_t> wait_of;
    definition_ = defining_nodes(graph_);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].op == kWait)
        wait_of[definition_[at(operand(static_cast<std::int32_t>(i)))]] = static_cast<std::int32_t>(i);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& start = graph_.nodes[i];
      if (parameters[i] < 0 || (start.op != kGather && start.op != kReduce)) continue;
      const Input& parameter = graph_.inputs[static_cast<std::size_t>(parameters[i])];
      const auto index = static_cast<std::int32_t>(i);
      const auto wait = wait_of.find(index);
      if (parameter.bucket.empty() || wait == wait_of.end() || type(operand(index)).sizes.size() != 1)
        continue;
      const bool gathers = start.op == kGather;
      if (gathers ? !gathers_parameter(index, parameters) : std::get<std::string>(start.args[1]) != "sum")
        continue;
      const Key key{parameter.bucket,
                    start.phase,
                    gathers ? kGather : kReduce,
                    std::get<std::string>(start.args[gathers ? 2 : 3]),
                    std::get<std::int64_t>(start.args[gathers ? 1 : 2]),
                    type(operand(index)).dtype};
      buckets_[key].push_back({parameters[i], index, wait->second});
    }
  }

  // Whether what is gathered depends on the parameter alone, so that it can be gathered earlier.
  bool gathers_parameter(std::int32_t start, const std::vector<std::int32_t>& parameters) const {
    const std::int32_t parameter = parameters[static_cast<std::size_t>(start)];
    ValueId id = operand(start);
    for (std::int32_t i = definition_[at(id)]; i >= 0; i = definition_[at(id)]) {
      int operands = 0;
      for_each_operand(node(i), [&](ValueId) { ++operands; });
      if (operands != 1 || parameters[static_cast<std::size_t>(i)] != parameter ||
          facts(node(i).op).effect != Effect::none)
        return false;
      id = operand(i);
    }
    return id == graph_.inputs[static_cast<std::size_t>(parameter)].value;
  }

  // Whether what a member reduces was computed from the reduction of another: then one collective cannot do both.
  bool depends_on_itself(const std::vector<Member>& members) const {
    std::int32_t first = members[0].wait, last = members[0].start;
    std::vector<bool> computed_from(graph_.values.size(), false);
    for (const Member& member : members) {
      first = std::min(first, member.wait);
      last = std::max(last, member.start);
      computed_from[at(node(member.wait).results[0])] = true;
    }
    bool drawn = false;  // random ops keep their order, so each depends on those before it
    for (std::int32_t i = first; i <= last; ++i) {
      const bool draws =
          facts(node(i).op).effect == Effect::random || facts(node(i).op).effect == Effect::host_sync;
      bool depends = draws && drawn;
      for_each_operand(node(i), [&](ValueId id) { depends = depends || computed_from[at(id)]; });
      if (!depends) continue;
      drawn = drawn || draws;
      for (ValueId id : node(i).results) computed_from[at(id)] = true;
      if (std::any_of(members.begin(), members.end(),
                      [&](const Member& member) { return member.start == i; }))
        return true;
    }
    return false;
  }

  // Appends a node at `place`; finish() sorts it in.
  std::vector<ValueId> emit(Place place, const Key& key, std::string op, std::vector<Argument> args,
                            std::vector<TensorType> types, ValueId views = kNoValue) {
    Node made{.op = std::move(op),
              .args = std::move(args),
              .results = {},
              .phase = std::get<Phase>(key),
              .module = std::get<0>(key),
              .origin = std::string(kOrigin)};
    for (TensorType& type : types)
      made.results.push_back(graph_.add_value({std::move(type), views, kNoValue}));
    std::vector<ValueId> results = made.results;
    made_.push_back(std::move(made));
    made_places_.push_back(place);
    return results;
  }
  ValueId view(Place place, const Key& key, ValueId of, std::vector<std::int64_t> sizes) {
    const DType dtype = type(of).dtype;
    return emit(place, key, "aten.view.default", {Use{of}, sizes}, {contiguous(dtype, sizes)}, of)[0];
  }
  ValueId start_and_wait(Place place, const Key& key, std::vector<Argument> args, std::int64_t elements) {
    const DType dtype = std::get<DType>(key);
    const ValueId started =
        emit(place, key, std::string(std::get<2>(key)), std::move(args), {contiguous(dtype, {elements})})[0];
    return emit(place, key, std::string(kWait), {Use{started}}, {contiguous(dtype, {elements})}, started)[0];
  }
  void replace(const Member& member, ValueId by) {
    replacement_[at(node(member.wait).results[0])] = by;
    dropped_.push_back(member.start);
    dropped_.push_back(member.wait);
  }

  void gather(const Key& key, const std::vector<Member>& members) {
    const auto ranks = std::get<std::int64_t>(key);
    const DType dtype = std::get<DType>(key);
    Place place{members[0].start, 0};
    UseList shards;
    std::vector<std::int64_t> lengths;
    std::int64_t total = 0;
    for (const Member& member : members) {
      place.index = std::min(place.index, member.start);
      shards.values.push_back(operand(member.start));
      lengths.push_back(type(shards.values.back()).sizes[0]);
      total += lengths.back();
    }
    hoist(shards.values, place);
    const ValueId packed =
        emit(place, key, "aten.cat.default", {shards, std::int64_t{0}}, {contiguous(dtype, {total})})[0];
    const ValueId whole = start_and_wait(place, key, {Use{packed}, ranks, std::get<3>(key)}, ranks * total);
    const ValueId rows = view(place, key, whole, {ranks, total});
    std::vector<TensorType> types;
    for (std::int64_t length : lengths) types.push_back(contiguous(dtype, {ranks, length}));
    const std::vector<ValueId> parts = emit(place, key, "aten.split_with_sizes_copy.default",
                                            {Use{rows}, lengths, std::int64_t{1}}, std::move(types));
    for (std::size_t k = 0; k < members.size(); ++k)
      replace(members[k], view(place, key, parts[k], {ranks * lengths[k]}));
  }

  // Shards may be cast right before they are gathered; the casts come along to where the bucket starts.
  void hoist(const std::vector<ValueId>& shards, Place place) {
    for (ValueId id : shards) {
      std::int32_t i = definition_[at(id)];
      while (i > place.index) {
        places_[static_cast<std::size_t>(i)] = place;
        i = definition_[at(operand(i))];
      }
    }
  }

  void reduce(const Key& key, const std::vector<Member>& members) {
    const auto ranks = std::get<std::int64_t>(key);
    const DType dtype = std::get<DType>(key);
    Place place{0, 0};
    std::vector<std::int64_t> lengths;
    std::int64_t total = 0;
    for (const Member& member : members) {
      place.index = std::max(place.index, member.start);
      lengths.push_back(type(operand(member.start)).sizes[0] / ranks);
      total += lengths.back();
    }
    UseList rows;
    for (std::size_t k = 0; k < members.size(); ++k)
      rows.values.push_back(view(place, key, operand(members[k].start), {ranks, lengths[k]}));
    const ValueId packed =
        emit(place, key, "aten.cat.default", {rows, std::int64_t{1}}, {contiguous(dtype, {ranks, total})})[0];
    const ValueId flat = view(place, key, packed, {ranks * total});
    const ValueId shard =
        start_and_wait(place, key, {Use{flat}, std::string("sum"), ranks, std::get<3>(key)}, total);
    std::vector<TensorType> types;
    for (std::int64_t length : lengths) types.push_back(contiguous(dtype, {length}));
    const std::vector<ValueId> parts = emit(place, key, "aten.split_with_sizes_copy.default",
                                            {Use{shard}, lengths, std::int64_t{0}}, std::move(types));
    for (std::size_t k = 0; k < members.size(); ++k) replace(members[k], parts[k]);
  }

  // New nodes go to their places, readers behind what they read now, and the single collectives away.
  void finish() {
    replacement_.resize(graph_.values.size(), kNoValue);
    replace_uses(graph_, replacement_);
    std::vector<bool> keep(graph_.nodes.size(), true);
    for (std::int32_t i : dropped_) keep[static_cast<std::size_t>(i)] = false;
    std::vector<Place> places;
    for (std::size_t i = 0; i < keep.size(); ++i)
      if (keep[i]) places.push_back(places_[i]);
    keep_nodes(graph_, keep);
    const Node last = std::move(graph_.nodes.back());
    graph_.nodes.pop_back();
    const Place last_place = places.back();
    places.pop_back();
    for (std::size_t k = 0; k < made_.size(); ++k) {
      graph_.nodes.push_back(std::move(made_[k]));
      places.push_back(made_places_[k]);
    }
    graph_.nodes.push_back(last);
    places.push_back(last_place);
    reorder(graph_, places);
  }

  Graph& graph_;
  std::map<Key, std::vector<Member>> buckets_;
  std::vector<ValueId> replacement_;
  std::vector<std::int32_t> dropped_;
  std::vector<std::int32_t> definition_;
  std::vector<Place> places_;
  std::vector<Node> made_;
  std::vector<Place> made_places_;
};

}  // namespace

Notes transformer_block_bucketing(Graph& graph, const CompileOptions&) {
  return overwrites(graph) ? left_alone() : Bucketing(graph).run();
}

}  // namespace rondo::ir

// Packs the operands of several collectives with cat, starts one collective, and splits its result.
// A gather qualifies only if it depends on its parameter alone, because it moves up to the first
// member of its bucket. A reduction that depends on another reduction is excluded: one bucket with
// both would be a cycle. Gradients that are all cast from one dtype are packed before the cast and
// cast once. New nodes are collected with their places; finish() edits the graph once, with one
// stable topological sort.
#include "compiler/analysis/bucketing.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "compiler/analysis/parameters.h"
#include "compiler/analysis/schedule.h"
#include "compiler/ir/def_use.h"

namespace rondo::ir {
namespace {

constexpr std::string_view kSplitCopy = "aten.split_with_sizes_copy.default";
constexpr std::string_view kSplit = "aten.split_with_sizes.default";

ValueId first_operand(const Node& node) { return operand(node, 0); }

// Returns whether a gather can move up: its operand is made from its parameter on this rank, by
// nodes whose other operands are made from parameters before any gather.
bool gathers_parameter(const Graph& graph, const IdMap<std::int32_t>& parameters,
                       const IdMap<bool>& of_parameters, const DefUse& def_use, NodeIndex start) {
  ValueId id = first_operand(graph.nodes[start]);
  if (!of_parameters[id]) return false;
  for (NodeIndex i = def_use.maker(id); i != kNoNode; i = def_use.maker(id)) {
    const Node& node = graph.nodes[i];
    if (parameters[i] != parameters[start] || facts(node.op).effect != Effect::none) return false;
    id = first_operand(node);
  }
  return id == graph.inputs[parameters[start]].value;
}

// Returns for each node whether its operands depend on a gradient that a collective of this kind
// reduced. Random ops keep their order, so each depends on the previous ones.
IdMap<bool> computed_from(const Graph& graph, const IdMap<std::int32_t>& parameters, CollectiveKind kind) {
  IdMap<bool> depends(graph.nodes.size(), false), values(graph.values.size(), false);
  bool drawn = false;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const Effect effect = facts(node.op).effect;
    const bool draws = effect == Effect::random || effect == Effect::host_sync;
    bool any = draws && drawn;
    for_each_operand(node, [&](ValueId id) { any = any || values[id]; });
    depends[i] = any;
    drawn = drawn || (draws && any);
    if (any || (parameters[i] >= 0 && is_collective(node, kind)))
      for (ValueId id : node.results) values[id] = true;
  }
  return depends;
}

// Collectives with equal keys may share one collective: bucket, phase, gathers, group,
// ranks, dtype.
using Key = std::tuple<std::string, Phase, bool, std::string, std::int64_t, DType>;
using Members = std::vector<const FsdpCollective*>;

class Bucketing {
 public:
  Bucketing(Graph& graph, std::string_view origin)
      : graph_(graph),
        origin_(origin),
        replacement_(graph.values.size(), kNoValue),
        def_use_(graph),
        places_(present_places(graph)) {}

  void make(const Key& key, Members members) {
    sort(members);
    std::get<bool>(key) ? gather(key, members) : reduce(key, members);
  }

  // Packs first, except where one reduce-scatter's result is only split: its whole result is then
  // reduced before the split.
  void sum(const Key& key, Members members) {
    sort(members);
    const auto [place, gradients, lengths, total] = contents(members, 1);
    const NodeIndex split = split_for(gradients);
    if (split >= 0) dropped_.push_back(split);
    const ValueId packed = split >= 0 ? first_operand(graph_.nodes[split])
                                      : pack(place, key, {before_casts(gradients)}, 0, {total});
    const ValueId whole =
        start_and_wait(kAllReduce, place, key, {Use{packed}, std::string("sum"), std::get<3>(key)}, total);
    split_whole(place, key, whole, lengths, members);
  }

  // Inserts the new nodes at their places, moves readers after their new operands, and removes the
  // single collectives. Call once, after the last bucket.
  void finish() {
    replacement_.resize(graph_.values.size(), kNoValue);
    replace_uses(graph_, replacement_);
    std::vector<bool> keep(graph_.nodes.size(), true);
    for (NodeIndex i : dropped_) keep[i] = false;
    keep_add_and_reorder(graph_, keep, places_, std::move(new_nodes_), new_places_);
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // Operands of the members, and the start of the last member.
  struct Contents {
    Place last{0, 0};
    std::vector<ValueId> operands = {};
    std::vector<std::int64_t> lengths = {};  // of one of `pieces` equal pieces of each operand
    std::int64_t total = 0;                  // sum of the lengths
  };
  Contents contents(const Members& members, std::int64_t pieces) const {
    Contents c;
    for (const FsdpCollective* member : members) {
      c.last.index = std::max(c.last.index, member->start);
      c.operands.push_back(first_operand(graph_.nodes[member->start]));
      c.lengths.push_back(type(c.operands.back()).sizes[0] / pieces);
      c.total += c.lengths.back();
    }
    return c;
  }

  // Appends a node at `place`; finish() inserts it.
  std::vector<ValueId> emit(Place place, const Key& key, std::string op, std::vector<Argument> args,
                            std::vector<TensorType> types, ValueId views = kNoValue) {
    Node node{.op = std::move(op),
              .args = std::move(args),
              .results = {},
              .phase = std::get<Phase>(key),
              .module = std::get<0>(key),
              .origin = std::string(origin_)};
    for (TensorType& type : types)
      node.results.push_back(graph_.add_value({std::move(type), views, kNoValue}));
    std::vector<ValueId> results = node.results;
    new_nodes_.push_back(std::move(node));
    new_places_.push_back(place);
    return results;
  }
  ValueId view(Place place, const Key& key, ValueId of, std::vector<std::int64_t> sizes) {
    const DType dtype = type(of).dtype;
    return emit(place, key, "aten.view.default", {Use{of}, sizes}, {contiguous(dtype, sizes)}, of)[0];
  }
  ValueId start_and_wait(std::string_view op, Place place, const Key& key, std::vector<Argument> args,
                         std::int64_t elements) {
    const DType dtype = std::get<DType>(key);
    const ValueId started =
        emit(place, key, std::string(op), std::move(args), {contiguous(dtype, {elements})})[0];
    return emit(place, key, std::string(kWaitTensor), {Use{started}}, {contiguous(dtype, {elements})},
                started)[0];
  }
  void replace(const FsdpCollective* member, ValueId by) {
    replacement_[graph_.nodes[member->wait].results[0]] = by;
    dropped_.push_back(member->start);
    dropped_.push_back(member->wait);
  }

  void gather(const Key& key, const Members& members) {
    const auto ranks = std::get<std::int64_t>(key);
    const DType dtype = std::get<DType>(key);
    const auto [last, shards, lengths, total] = contents(members, 1);
    Place place = last;
    for (const FsdpCollective* member : members) place.index = std::min(place.index, member->start);
    hoist(shards, place);
    const ValueId packed = pack(place, key, {shards}, 0, {total});
    const ValueId whole =
        start_and_wait(kAllGather, place, key, {Use{packed}, ranks, std::get<3>(key)}, ranks * total);
    const ValueId rows = view(place, key, whole, {ranks, total});
    std::vector<TensorType> types;
    for (std::int64_t length : lengths) types.push_back(contiguous(dtype, {ranks, length}));
    const std::vector<ValueId> parts =
        emit(place, key, std::string(kSplitCopy), {Use{rows}, lengths, std::int64_t{1}}, std::move(types));
    for (std::size_t k = 0; k < members.size(); ++k)
      replace(members[k], view(place, key, parts[k], {ranks * lengths[k]}));
  }

  // Moves what computes shards right before a gather to the start of the bucket.
  void hoist(const std::vector<ValueId>& shards, Place place) {
    for (const ValueId id : shards) {
      const NodeIndex i = def_use_.maker(id);
      if (i <= place.index) continue;
      places_[i] = place;
      std::vector<ValueId> operands;
      for_each_operand(graph_.nodes[i], [&](ValueId operand) { operands.push_back(operand); });
      hoist(operands, place);
    }
  }

  void reduce(const Key& key, const Members& members) {
    const auto ranks = std::get<std::int64_t>(key);
    const auto [place, gradients, lengths, total] = contents(members, ranks);
    const std::vector<ValueId> sources = before_casts(gradients);
    UseList rows;
    for (std::size_t k = 0; k < members.size(); ++k)
      rows.values.push_back(view(place, key, sources[k], {ranks, lengths[k]}));
    const ValueId packed = pack(place, key, std::move(rows), 1, {ranks, total});
    const ValueId flat = view(place, key, packed, {ranks * total});
    const ValueId shard = start_and_wait(kReduceScatter, place, key,
                                         {Use{flat}, std::string("sum"), ranks, std::get<3>(key)}, total);
    split_whole(place, key, shard, lengths, members);
  }

  // Concatenates `parts` along `dim` and casts the result to the bucket's dtype.
  ValueId pack(Place place, const Key& key, UseList parts, std::int64_t dim,
               const std::vector<std::int64_t>& sizes) {
    const DType from = type(parts.values[0]).dtype, to = std::get<DType>(key);
    const ValueId packed =
        emit(place, key, "aten.cat.default", {std::move(parts), dim}, {contiguous(from, sizes)})[0];
    if (from == to) return packed;
    return emit(place, key, std::string(kToCopy), {Use{packed}, to, None{}, None{}, None{}, false, None{}},
                {contiguous(to, sizes)})[0];
  }

  // Splits the flat `whole`; readers of each member read its part.
  void split_whole(Place place, const Key& key, ValueId whole, const std::vector<std::int64_t>& lengths,
                   const Members& members) {
    std::vector<TensorType> types;
    for (std::int64_t length : lengths) types.push_back(contiguous(std::get<DType>(key), {length}));
    const std::vector<ValueId> parts = emit(place, key, std::string(kSplit),
                                            {Use{whole}, lengths, std::int64_t{0}}, std::move(types), whole);
    for (std::size_t k = 0; k < members.size(); ++k) replace(members[k], parts[k]);
  }

  // Returns the sources of the operands if all are cast from one dtype right before they are
  // reduced. They are then packed and cast once, so they wait for their bucket in the smaller
  // dtype. Otherwise returns the operands.
  std::vector<ValueId> before_casts(const std::vector<ValueId>& operands) {
    std::vector<ValueId> sources;
    std::vector<NodeIndex> casts;
    for (const ValueId operand : operands) {
      const NodeIndex i = def_use_.maker(operand);
      if (i < 0 || graph_.nodes[i].op != kToCopy || def_use_.readers(operand).size() != 1) continue;
      const ValueId source = first_operand(graph_.nodes[i]);
      const bool flat =
          source != kNoValue && type(source).sizes == type(operand).sizes && is_contiguous(type(source));
      if (!flat || (!sources.empty() && type(source).dtype != type(sources[0]).dtype)) continue;
      sources.push_back(source);
      casts.push_back(i);
    }
    if (sources.size() != operands.size()) return operands;
    dropped_.insert(dropped_.end(), casts.begin(), casts.end());
    return sources;
  }

  // Returns the bucket's split with exactly these results, each with one reader, or -1.
  NodeIndex split_for(const std::vector<ValueId>& values) const {
    const NodeIndex maker = def_use_.maker(values[0]);
    if (maker < 0) return -1;
    const Node& split = graph_.nodes[maker];
    if (split.op != kSplit || !made_by_bucketing(split) || split.results != values) return -1;
    const bool once = std::all_of(values.begin(), values.end(),
                                  [&](ValueId id) { return def_use_.readers(id).size() == 1; });
    return once ? maker : -1;
  }

  static void sort(Members& members) {
    std::sort(members.begin(), members.end(), [](const FsdpCollective* a, const FsdpCollective* b) {
      return std::pair(a->parameter, a->start) < std::pair(b->parameter, b->start);
    });
  }

  Graph& graph_;
  std::string_view origin_;
  IdMap<ValueId> replacement_;
  std::vector<NodeIndex> dropped_;
  DefUse def_use_;
  IdMap<Place> places_;
  std::vector<Node> new_nodes_;
  std::vector<Place> new_places_;
};

}  // namespace

std::vector<FsdpCollective> fsdp_collectives(const Graph& graph) {
  const IdMap<std::int32_t> parameters = parameters_of_nodes(graph);
  const DefUse def_use(graph);
  const IdMap<bool> depends = computed_from(graph, parameters, CollectiveKind::reduce_scatter),
                    before_gathers = values_before_gathers(graph);
  const IdMap<NodeIndex> waits = waits_of_starts(graph);
  std::vector<FsdpCollective> collectives;
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& start = graph.nodes[i];
    const std::optional<Collective> c = collective_of(start);
    if (parameters[i] < 0 || !c) continue;
    const bool gathers = c->kind == CollectiveKind::all_gather;
    if (!gathers && c->kind != CollectiveKind::reduce_scatter) continue;
    const NodeIndex wait = waits[i];
    const TensorType& type = graph.value(first_operand(start)).type;
    if (wait < 0 || type.sizes.size() != 1) continue;
    if (gathers ? !gathers_parameter(graph, parameters, before_gathers, def_use, i)
                : depends[i] || c->reduction != "sum")
      continue;
    FsdpCollective collective{.parameter = parameters[i],
                              .start = i,
                              .wait = wait,
                              .kind = c->kind,
                              .phase = start.phase,
                              .group = std::string(c->group),
                              .ranks = c->ranks,
                              .dtype = type.dtype};
    collective.bytes = storage_bytes(gathers ? graph.value(start.results[0]).type : type);
    collectives.push_back(std::move(collective));
  }
  return collectives;
}

bool made_by_bucketing(const Node& node) {
  return node.origin == "transformer_block_bucketing" || node.origin == "auto_bucketing" ||
         node.origin == "bucket_replica_sums";
}

Notes bucket_sums(Graph& graph, std::string_view origin) {
  const IdMap<std::int32_t> parameters = parameters_of_nodes(graph);
  const DefUse def_use(graph);
  const IdMap<bool> depends = computed_from(graph, parameters, CollectiveKind::all_reduce);
  const IdMap<NodeIndex> waits = waits_of_starts(graph);
  std::deque<FsdpCollective> sums;  // a deque keeps addresses valid
  std::map<Key, Members> by_key;
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& start = graph.nodes[i];
    const std::optional<Collective> c = collective_of(start);
    if (parameters[i] < 0 || !c || c->kind != CollectiveKind::all_reduce || c->reduction != "sum" ||
        depends[i])
      continue;
    const NodeIndex wait = waits[i];
    const TensorType& type = graph.value(first_operand(start)).type;
    if (wait < 0 || type.sizes.size() != 1) continue;
    const NodeIndex maker = def_use.maker(first_operand(start));
    const Node* source = maker == kNoNode ? nullptr : &graph.nodes[maker];
    const std::string& bucket =
        source != nullptr && made_by_bucketing(*source) ? source->module : graph.inputs[parameters[i]].bucket;
    sums.push_back({.parameter = parameters[i], .start = i, .wait = wait});
    const Key key{bucket, start.phase, false, std::string(c->group), 1, type.dtype};
    if (!bucket.empty()) by_key[key].push_back(&sums.back());
  }
  if (sums.empty()) return unchanged();
  std::size_t after = sums.size();
  Bucketing bucketing(graph, origin);
  for (const auto& [key, members] : by_key) {
    if (members.size() < 2) continue;
    bucketing.sum(key, members);
    after -= members.size() - 1;
  }
  bucketing.finish();
  return {fmt::format("{} sums over replicas became {}", sums.size(), after)};
}

Notes bucket_collectives(Graph& graph, const std::vector<FsdpCollective>& collectives,
                         const std::vector<std::string>& buckets, std::string_view origin) {
  std::map<Key, Members> by_key;
  std::size_t alone = 0;
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    const FsdpCollective& collective = collectives[i];
    if (buckets[i].empty()) {
      ++alone;
    } else {
      by_key[{buckets[i], collective.phase, collective.gathers(), collective.group, collective.ranks,
              collective.dtype}]
          .push_back(&collective);
    }
  }
  Bucketing bucketing(graph, origin);
  for (const auto& [key, members] : by_key)
    if (members.size() > 1) bucketing.make(key, members);
  bucketing.finish();
  return {fmt::format("{} collectives of parameters became {}", collectives.size(), by_key.size() + alone)};
}

}  // namespace rondo::ir

// Overlaps communication of parameters with the compute of the neighbouring layers.
//
//   start gather 1                     start gather 1
//   wait for gather 1                  wait for gather 1
//   compute with 1                     start gather 2
//   start gather 2             ->      compute with 1
//   wait for gather 2                  wait for gather 2
//   compute with 2                     compute with 2
//
// A gather of parameters depends on nothing that the step computes, so it can start anywhere before
// its wait. One gather ahead hides it, with two of them in memory. The first gather of the backward
// starts with the backward's first matrix product. That is enough to hide it, and it is after the
// loss, where memory use is highest.
//
// A wait for a reduce-scatter of gradients moves down to the start of the next reduce-scatter, or
// to the end of the backward. Readers of its result (casts, splits, the start of an all-reduce over
// replicas) follow it. A wait for such an all-reduce moves down to the start of the reduce-scatter
// after the next one. Where this graph has no reduce-scatters of gradients, it moves to the start
// of the next all-reduce.
//
// Several collectives of a bucket, in several groups, count as one. So do a small one and the next
// bucket's: nothing could hide behind the small one.
#include <algorithm>

#include "compiler/analysis/bucketing.h"
#include "compiler/analysis/parameters.h"
#include "compiler/analysis/schedule.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

class FsdpOverlap {
 public:
  explicit FsdpOverlap(Graph& graph)
      : graph_(graph),
        def_use_(graph),
        places_(present_places(graph)),
        waits_(waits_of_starts(graph)),
        parameters_(parameters_of_nodes(graph)),
        of_parameters_(values_before_gathers(graph)) {}

  void run() {
    for (Phase phase : {Phase::forward, Phase::backward, Phase::update}) {
      prefetch_gathers(phase);
      delay_reductions(phase);
      delay_replica_sums(phase);
    }
    reorder(graph_, places_);
  }

 private:
  ValueId first_operand(NodeIndex i) const { return operand(graph_.nodes[i], 0); }

  std::vector<NodeIndex> starts(Phase phase, CollectiveKind kind) const {
    std::vector<NodeIndex> result;
    for (NodeIndex i = 0; i < graph_.node_count(); ++i)
      if (graph_.nodes[i].phase == phase && is_collective(graph_.nodes[i], kind) && waits_[i] >= 0)
        result.push_back(i);
    return result;
  }

  // Consecutive collectives that count as one.
  using Unit = std::vector<NodeIndex>;
  std::vector<Unit> units(const std::vector<NodeIndex>& starts) const {
    constexpr std::int64_t kFarLarger = 64;
    std::vector<Unit> result;
    std::int64_t bytes = 0;  // of the largest collective of the last unit
    for (const NodeIndex i : starts) {
      const std::int64_t own = bytes_of(i);
      const bool is_one =
          !result.empty() &&
          (own >= kFarLarger * bytes || graph_.nodes[result.back().front()].module == graph_.nodes[i].module);
      if (!is_one) result.emplace_back();
      bytes = is_one ? std::max(bytes, own) : own;
      result.back().push_back(i);
    }
    return result;
  }
  // Returns the bytes of a collective's larger side.
  std::int64_t bytes_of(NodeIndex i) const {
    const auto bytes = [&](ValueId id) { return storage_bytes(graph_.value(id).type); };
    return std::max(bytes(first_operand(i)), bytes(graph_.nodes[i].results[0]));
  }
  NodeIndex last_wait(const Unit& unit) const {
    NodeIndex last = kNoNode;
    for (const NodeIndex i : unit) last = std::max(last, waits_[i]);
    return last;
  }

  void prefetch_gathers(Phase phase) {
    std::vector<NodeIndex> gathers = starts(phase, CollectiveKind::all_gather);
    std::erase_if(gathers, [&](NodeIndex i) { return !of_parameters_[first_operand(i)]; });
    const Unit* before = nullptr;
    const std::vector<Unit> gather_units = units(gathers);
    for (const Unit& unit : gather_units) {
      const NodeIndex after = before == nullptr ? first_product(phase) - 1 : last_wait(*before);
      for (const NodeIndex i : unit) move_up(i, {after, 1});
      before = &unit;
    }
  }

  // Returns the first heavy node of the backward. For the forward, which begins with a gather,
  // returns its first node.
  NodeIndex first_product(Phase phase) const {
    const auto begin = graph_.nodes.begin() + phase_begin(phase);
    const auto product =
        std::find_if(begin, graph_.nodes.end(), [](const Node& node) { return facts(node.op).is_heavy(); });
    const bool exists = phase == Phase::backward && product != graph_.nodes.end() && product->phase == phase;
    return static_cast<NodeIndex>((exists ? product : begin) - graph_.nodes.begin());
  }

  NodeIndex phase_begin(Phase phase) const {
    const auto first = std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                                    [&](const Node& node) { return node.phase >= phase; });
    return static_cast<NodeIndex>(first - graph_.nodes.begin());
  }

  // Moves up a node and its operands of the same phase.
  void move_up(NodeIndex i, Place place) {
    if (places_[i] <= place) return;
    places_[i] = place;
    for_each_operand(graph_.nodes[i], [&](ValueId id) {
      const NodeIndex maker = def_use_.maker(id);
      if (maker != kNoNode && graph_.nodes[maker].phase == graph_.nodes[i].phase) move_up(maker, place);
    });
  }

  bool of_parameter(NodeIndex i) const { return parameters_[i] >= 0 || made_by_bucketing(graph_.nodes[i]); }
  std::vector<NodeIndex> reductions(Phase phase, CollectiveKind kind) const {
    std::vector<NodeIndex> result = starts(phase, kind);
    std::erase_if(result, [&](NodeIndex i) { return !of_parameter(i); });
    return result;
  }
  void delay_wait(NodeIndex start, Place place) {
    Place& wait = places_[waits_[start]];
    wait = std::max(wait, place);
  }

  void delay_reductions(Phase phase) {
    const std::vector<Unit> scatters = units(reductions(phase, CollectiveKind::reduce_scatter));
    for (std::size_t k = 0; k < scatters.size(); ++k)
      for (const NodeIndex i : scatters[k])
        delay_wait(
            i, k + 1 < scatters.size() ? before(scatters[k + 1]) : Place{phase_begin(Phase::update) - 1, 1});
  }
  static Place before(const Unit& unit) { return {unit.front(), -1}; }

  void delay_replica_sums(Phase phase) {
    const std::vector<Unit> scatters = units(reductions(phase, CollectiveKind::reduce_scatter)),
                            sums = units(reductions(phase, CollectiveKind::all_reduce));
    const Place end{phase_begin(Phase::update) - 1, 2};  // after the start of the last sum
    for (std::size_t k = 0; k < sums.size(); ++k) {
      for (const NodeIndex i : sums[k]) {
        const NodeIndex source = scattered_by(i);
        const auto scatter = std::find_if(scatters.begin(), scatters.end(), [&](const Unit& unit) {
          return std::find(unit.begin(), unit.end(), source) != unit.end();
        });
        const bool scattered = scatter != scatters.end();
        const std::size_t next = scattered ? static_cast<std::size_t>(scatter - scatters.begin()) + 2 : k + 1;
        const std::vector<Unit>& starts = scattered ? scatters : sums;
        delay_wait(i, next < starts.size() ? before(starts[next]) : end);
      }
    }
  }

  // Returns the reduce-scatter whose result is summed over replicas, or kNoNode.
  NodeIndex scattered_by(NodeIndex sum) const {
    for (NodeIndex i = def_use_.maker(first_operand(sum)); i != kNoNode && of_parameter(i);
         i = def_use_.maker(first_operand(i))) {
      if (is_collective(graph_.nodes[i], CollectiveKind::reduce_scatter)) return i;
    }
    return kNoNode;
  }

  Graph& graph_;
  DefUse def_use_;
  IdMap<Place> places_;
  IdMap<NodeIndex> waits_;          // by start
  IdMap<std::int32_t> parameters_;  // by node; -1 without a parameter
  IdMap<bool> of_parameters_;       // by value: of parameters alone, not gathered
};

}  // namespace

Notes overlap_fsdp(Graph& graph, const CompileOptions&) {
  if (overwrites(graph)) return left_alone();
  FsdpOverlap(graph).run();
  return {};
}

}  // namespace rondo::ir

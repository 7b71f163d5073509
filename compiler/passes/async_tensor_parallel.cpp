// Cuts collectives of activations into pieces that run at the same time as the pieces of their
// products (Wang et al., "Overlap Communication with Dependent Computation via Decomposition",
// 2023; torchtitan's enable_async_tensor_parallel).
//
//   start: gather x            start: gather rows 0 of every rank, start: gather rows 1
//   wait                       wait 0, product with rows 0
//   product                ->  wait 1, product with rows 1
//                              concatenate the rows of each rank
//
//   product                    product with columns 0, start: reduce-scatter columns 0
//   start: reduce-scatter  ->  product with columns 1, start: reduce-scatter columns 1
//   wait                       wait 0, wait 1, concatenate the columns
//
// A gather is cut by the rows of a rank, so a piece has rows of every rank, and the products are
// copied once into the order of the ranks. A reduce-scatter is cut by the columns of its products,
// whose weights are sliced without a copy: cut by rows, the other operand would be copied. Each
// element is the same sum over the contracted dimension, and over the ranks in the same order. A
// copy of all gathered rows is made for readers other than products, such as gradients of weights.
//
// Without a requested number of pieces, the planner's price decides for each collective: the
// stretch of the schedule from the first node that changes to the last is simulated before and
// after. Many pieces hide more, but cost latency, launches and the rate of small products. If the
// whole graph is not faster, all collectives stay whole: where the network between nodes bounds the
// step, hidden time is lost to later waits for gathers of parameters.
//
// Float8 products are cut in the same ways, with the scales of their pieces. Gathered rows with a
// scale for each row are quantized piece by piece. A scale of the whole matrix needs all rows, so
// such a gather stays whole. So does a gather of float8 rows: it has half the bytes, and the copy
// of the products takes longer than what pieces hide.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "compiler/analysis/bucketing.h"
#include "compiler/analysis/collective_pieces.h"
#include "compiler/analysis/parameters.h"
#include "compiler/analysis/schedule.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"
#include "compiler/plan/simulate.h"

namespace rondo::ir {
namespace {

constexpr std::int64_t kPieces[] = {2, 4, 8};  // that the price chooses from

class AsyncTensorParallel {
 public:
  AsyncTensorParallel(Graph& graph, const DeviceModel& device, std::int64_t pieces)
      : graph_(graph),
        device_(device),
        requested_(pieces),
        cutter_(graph, "async_tensor_parallel"),
        replacement_(graph.values.size(), kNoValue) {}

  Notes run() {
    const IdMap<std::int32_t> parameters = parameters_of_nodes(graph_);
    for (NodeIndex i = 0; i < graph_.node_count(); ++i)
      if (facts(graph_.nodes[i].op).effect == Effect::collective_start && parameters[i] < 0 &&
          !made_by_bucketing(graph_.nodes[i]))
        consider(i);
    if (counts_.empty()) return unchanged(notes());
    if (requested_ != 0) {
      finish();
      return notes();
    }
    Graph whole = graph_;
    finish();
    const double before_s = step_seconds(whole), after_s = step_seconds(graph_);
    if (after_s < before_s) return notes();
    graph_ = std::move(whole);
    return unchanged(
        {fmt::format("all collectives of activations stay whole: with pieces the graph is planned to take "
                     "{:.2f} ms in place of {:.2f}",
                     1e3 * after_s, 1e3 * before_s)});
  }

 private:
  void consider(NodeIndex start) {
    const std::size_t values = graph_.values.size();  // a cut that is not accepted leaves none
    const bool can_be_cut = cutter_.cut(start, 1).has_value();
    std::int64_t pieces = 0;
    if (can_be_cut)
      pieces = requested_ == 0 ? fastest(start) : cutter_.cut(start, requested_) ? requested_ : 0;
    graph_.values.resize(values);
    if (pieces != 0) {
      accept(*cutter_.cut(start, pieces));
      ++counts_[pieces];
    } else if (can_be_cut) {
      ++whole_;
    }
  }

  // Returns the number of pieces with the lowest price, or 0 if the whole collective has it.
  std::int64_t fastest(NodeIndex start) {
    std::int64_t best = 0;
    double best_s = 0;
    for (const std::int64_t pieces : kPieces) {
      const std::optional<CollectivePieces> cut = cutter_.cut(start, pieces);
      if (!cut) continue;
      if (best_s == 0) best_s = seconds_before(*cut);
      if (const double s = seconds_after(*cut); s < best_s) best = pieces, best_s = s;
    }
    return best;
  }

  double seconds_before(const CollectivePieces& cut) const {
    std::vector<const Node*> nodes;
    for (NodeIndex i = cut.first; i <= cut.last; ++i) nodes.push_back(&graph_.nodes[i]);
    return seconds_of(graph_, nodes, device_);
  }
  double seconds_after(const CollectivePieces& cut) const {
    std::vector<const Node*> nodes;
    std::size_t next = 0;
    for (NodeIndex i = cut.first; i <= cut.last; ++i) {
      if (std::find(cut.dropped.begin(), cut.dropped.end(), i) == cut.dropped.end())
        nodes.push_back(&graph_.nodes[i]);
      for (; next < cut.nodes.size() && cut.places[next].index == i; ++next)
        nodes.push_back(&cut.nodes[next]);
    }
    return seconds_of(graph_, nodes, device_);
  }

  double step_seconds(const Graph& graph) const {
    std::vector<const Node*> nodes;
    for (const Node& node : graph.nodes) nodes.push_back(&node);
    return seconds_of(graph, nodes, device_);
  }

  void accept(CollectivePieces cut) {
    cutter_.accept(cut);
    replacement_.resize(graph_.values.size(), kNoValue);
    for (const auto& [before, after] : cut.replaced) replacement_[before] = after;
    std::move(cut.nodes.begin(), cut.nodes.end(), std::back_inserter(nodes_));
    node_places_.insert(node_places_.end(), cut.places.begin(), cut.places.end());
  }

  void finish() {
    std::vector<Place> places;
    for (std::size_t i = 0; i < cutter_.kept().size(); ++i)
      if (cutter_.kept()[i]) places.push_back({static_cast<NodeIndex>(i), 0});
    keep_nodes(graph_, cutter_.kept());
    // A product in pieces may read another collective's result, so replacement includes new nodes.
    graph_.nodes.insert(graph_.nodes.end() - 1, nodes_.begin(), nodes_.end());
    places.insert(places.end() - 1, node_places_.begin(), node_places_.end());
    replace_uses(graph_, replacement_);
    reorder(graph_, std::move(places));
  }

  Notes notes() const {
    Notes lines;
    for (const auto& [pieces, count] : counts_)
      lines.push_back(fmt::format(
          "{} collectives of activations run in {} pieces, which overlap their products", count, pieces));
    if (whole_ > 0)
      lines.push_back(
          requested_ == 0
              ? fmt::format("{} stay whole: in pieces they are planned to take longer", whole_)
              : fmt::format("{} stay whole: {} pieces do not divide them into multiples of {} rows "
                            "or columns",
                            whole_, requested_, kRowsOrColumnsOfPieces));
    return lines;
  }

  Graph& graph_;
  const DeviceModel& device_;
  const std::int64_t requested_;  // pieces; 0: by price
  CollectiveCutter cutter_;
  IdMap<ValueId> replacement_;
  std::vector<Node> nodes_;
  std::vector<Place> node_places_;
  std::map<std::int64_t, std::int64_t> counts_;  // collectives by pieces
  std::int64_t whole_ = 0;
};

}  // namespace

Notes async_tensor_parallel(Graph& graph, const CompileOptions& options) {
  if (options.tensor_parallel_pieces == 1) return unchanged();
  if (overwrites(graph)) return left_alone();
  return AsyncTensorParallel(graph, device_model_for(options.device), options.tensor_parallel_pieces).run();
}

}  // namespace rondo::ir

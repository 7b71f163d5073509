// Keeps parameters and moments in host memory.
//
//   parameter %0: f32[4096] w bucket b           parameter %0: host f32[4096] w bucket b
//   forward layers.0.w                           forward layers.0.w
//     %3 = aten._to_copy(%0, bf16)                 %9 = rondo.reload.default(%0)
//     ...                                          %10 views %9 = rondo.wait_transfer.default(%9)
//   update optimizer                      ->       %3 = aten._to_copy(%10, bf16)
//     %7 = rondo.adamw([%0], ...)                  ...
//   return                                       update optimizer
//     new.w = %7 -> w                              %11 = rondo.reload.default(%0)
//                                                  %12 views %11 = rondo.wait_transfer.default(%11)
//                                                  %7 = rondo.adamw([%12], ...)
//                                                  %13: host = rondo.offload.default(%7)
//                                                  %14: host views %13 = wait_transfer(%13)
//                                                return
//                                                  new.w = %14 -> w
//
// A phase reloads what it reads, so a parameter is on the device three times a step, each time
// briefly. A set is the tensors of a bucket in a phase. Two chains of sets go through a step, one
// of forward and backward and one of updates, which run in the backward with an early step. The
// reloads of a set start at the first reader of the set before it in its chain. The offloads of an
// update start after it, and end after the update of the next bucket. So two sets of a chain are in
// flight, as with the gathers of overlap_fsdp. Reloads and offloads use both directions of the bus.
//
// Scalars, buffers, and tensors that are not worth a transfer stay on the device.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "compiler/analysis/transfers.h"
#include "compiler/ir/storages.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

constexpr std::size_t kPhases = 3;
constexpr double kMib = 1 << 20;

class HostState {
 public:
  explicit HostState(Graph& graph)
      : graph_(graph),
        def_use_(graph),
        roots_(storage_roots(graph)),
        input_of_(graph.values.size(), kNoValue),
        bucket_of_(buckets(graph)),
        transfers_(graph, "state_on_host") {
    for (std::size_t phase = 0; phase < kPhases; ++phase)
      reloaded_[phase] = {.phase = static_cast<Phase>(phase),
                          .reloads = IdMap<ValueId>(graph.values.size(), kNoValue),
                          .stand_ins = IdMap<ValueId>(graph.values.size(), kNoValue)};
  }

  Notes run() {
    const std::int64_t bytes = move_inputs();
    if (bytes == 0) return unchanged();
    find_sets();
    reload_sets();
    for (NodeIndex i = 0; i < return_index(); ++i)
      transfers_.read_reloaded(i, reloaded_[static_cast<std::size_t>(graph_.nodes[i].phase)]);
    offload_updates();
    transfers_.finish(present_places(graph_));
    return {
        fmt::format("{:.1f} MiB of parameters and optimizer state are in host memory; a run reloads {:.1f} "
                    "and offloads {:.1f} MiB",
                    static_cast<double>(bytes) / kMib, static_cast<double>(reloaded_bytes_) / kMib,
                    static_cast<double>(offloaded_bytes_) / kMib)};
  }

 private:
  // The tensors of a bucket in a phase, by the first reader of each.
  struct Set {
    NodeIndex first = 0;
    bool updates = false;
    std::vector<std::pair<std::int32_t, NodeIndex>> readers;  // input, its first reader
    Phase phase = Phase::forward;
  };

  NodeIndex return_index() const { return graph_.node_count() - 1; }

  // Returns the bucket of each parameter, by name; its own name if it has none.
  static std::map<std::string_view, std::string_view> buckets(const Graph& graph) {
    std::map<std::string_view, std::string_view> result;
    for (const Input& input : graph.inputs)
      if (input.kind == InputKind::parameter)
        result[input.name] = input.bucket.empty() ? input.name : input.bucket;
    return result;
  }
  // Returns the bucket of a parameter, or of the one whose moment "exp_avg.NAME" is.
  std::string_view bucket_of(const Input& input) const {
    const std::string_view name = input.name;
    if (const auto own = bucket_of_.find(name); own != bucket_of_.end()) return own->second;
    const auto of = bucket_of_.find(name.substr(name.find('.') + 1));
    return of == bucket_of_.end() ? name : of->second;
  }

  // Marks the inputs that move. Returns their bytes.
  std::int64_t move_inputs() {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const Input& input = graph_.inputs[i];
      Value& value = graph_.value(input.value);
      if (input.kind != InputKind::parameter && input.kind != InputKind::optimizer) continue;
      if (!may_transfer(value.type)) continue;
      value.on_host = true;
      input_of_[input.value] = static_cast<ValueId>(i);
      bytes += storage_bytes(value.type);
    }
    return bytes;
  }
  std::int32_t input_of(ValueId id) const { return input_of_[roots_[id]]; }

  void find_sets() {
    std::set<std::pair<std::int32_t, Phase>> seen;
    std::map<std::tuple<Phase, std::string_view>, std::size_t> set_of;
    for (NodeIndex i = 0; i < return_index(); ++i) {
      const Phase phase = graph_.nodes[i].phase;
      for_each_operand(graph_.nodes[i], [&](ValueId id) {
        const std::int32_t input = input_of(id);
        if (input < 0 || !seen.emplace(input, phase).second) return;
        const auto [set, is_new] =
            set_of.emplace(std::tuple(phase, bucket_of(graph_.inputs[input])), sets_.size());
        if (is_new)
          sets_.push_back({.first = i, .updates = phase == Phase::update, .readers = {}, .phase = phase});
        sets_[set->second].readers.emplace_back(input, i);
      });
    }
  }

  // Emits the reloads of the sets in the order of their first readers.
  void reload_sets() {
    std::array<NodeIndex, 2> before = {kNoNode, kNoNode};  // first readers of the last sets, by chain
    for (const Set& set : sets_) {
      NodeIndex& of_chain = before[set.updates];
      const NodeIndex start = of_chain != kNoNode ? of_chain : std::max({before[0], before[1], 0});
      of_chain = set.first;
      for (const auto& [input, reader] : set.readers) {
        const ValueId value = graph_.inputs[input].value;
        const std::string& module = set.updates ? graph_.nodes[reader].module : graph_.inputs[input].name;
        reloaded_[static_cast<std::size_t>(set.phase)].reloads[value] =
            transfers_.reload(value, {{start, -2}, set.phase, module});
        reloaded_bytes_ += storage_bytes(graph_.value(value).type);
      }
    }
  }

  void offload_updates() {
    struct Update {
      std::size_t output;
      NodeIndex maker;
    };
    std::map<std::string_view, std::vector<Update>> of_buckets;
    std::map<std::string_view, NodeIndex> last_maker;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const std::int32_t updated = graph_.outputs[i].updates;
      if (updated < 0 || input_of_[graph_.inputs[updated].value] < 0) continue;
      const ValueId value = operand(graph_.return_node(), i);
      const NodeIndex maker = def_use_.maker(value);
      if (maker == kNoNode) continue;  // it is the input itself
      const std::string_view bucket = bucket_of(graph_.inputs[updated]);
      of_buckets[bucket].push_back({i, maker});
      NodeIndex& last = last_maker.try_emplace(bucket, kNoNode).first->second;
      last = std::max(last, maker);
    }
    std::vector<std::pair<NodeIndex, std::string_view>> order;
    for (const auto& [bucket, last] : last_maker) order.emplace_back(last, bucket);
    std::sort(order.begin(), order.end());
    for (std::size_t k = 0; k < order.size(); ++k) {
      const Place end = k + 1 < order.size() ? Place{order[k + 1].first, 2} : Place{return_index(), -1};
      for (const Update& update : of_buckets[order[k].second]) offload(update.output, update.maker, end);
    }
  }
  void offload(std::size_t output, NodeIndex maker, Place end) {
    ValueId& returned = std::get<Use>(graph_.return_node().args[output]).value;
    const Phase phase = graph_.nodes[maker].phase;
    const std::string module = graph_.nodes[maker].module;
    offloaded_bytes_ += storage_bytes(graph_.value(returned).type);
    returned =
        transfers_.wait(transfers_.offload(returned, {{maker, 1}, phase, module}), {end, phase, module});
  }

  Graph& graph_;
  DefUse def_use_;
  IdMap<ValueId> roots_;
  IdMap<std::int32_t> input_of_;  // by value of an input that moves: its index
  const std::map<std::string_view, std::string_view> bucket_of_;
  Transfers transfers_;
  std::array<Reloaded, kPhases> reloaded_;
  std::vector<Set> sets_;
  std::int64_t reloaded_bytes_ = 0, offloaded_bytes_ = 0;
};

}  // namespace

Notes state_on_host(Graph& graph, const CompileOptions& options) {
  if (!options.state_on_host) return unchanged();
  if (overwrites(graph)) return left_alone();
  return HostState(graph).run();
}

}  // namespace rondo::ir

// Categories are tested in enumeration order and the first match wins, so each byte has one owner.
// The categories depend on the readers of each storage root, through any view, which are collected
// as bits. Live bytes are a difference array and its prefix sum. A result that reuses the memory
// of a dying operand ends that operand one node earlier; otherwise the bytes would count twice at
// that node.
#include "compiler/plan/report/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_set>

#include "compiler/analysis/bucketing.h"
#include "compiler/ir/storages.h"
#include "compiler/text/text.h"
#include "support/text/size_text.h"

namespace rondo::ir {
namespace {

// Computes the category of a storage. Two walks over the nodes collect its readers.
class Classifier {
 public:
  Classifier(const Graph& graph, const IdMap<ValueId>& roots)
      : graph_(graph), roots_(roots), blocks_(blocks_of_nodes(graph)), reads_(graph.values.size()) {
    std::unordered_set<std::string_view> parameters;
    for (const Input& input : graph.inputs)
      if (input.kind == InputKind::parameter) parameters.insert(input.name);
    for (const Node& node : graph.nodes)
      moves_parameters_.push_back(parameters.contains(node.module) || made_by_bucketing(node));
    find_head();
    scan_nodes();
  }

  // `value` owns its storage, and node `i` makes it.
  StorageCategory category(ValueId value, std::size_t i) const {
    const Node& node = graph_.nodes[i];
    const unsigned reads = reads_[value];
    const bool backward = node.phase == Phase::backward, update = node.phase == Phase::update;
    if (made_by_bucketing(node) && !(reads & kByOthers)) return StorageCategory::buckets;
    if (backward && (reads & (kByUpdate | kByReduction))) return StorageCategory::gradients;
    if (is_reduction(i)) return StorageCategory::gradients;
    if (!update && out_of_parameters_[i]) return StorageCategory::weights;
    if (!update && head_.contains(node.module) && !(reads & kByBlock)) return StorageCategory::head;
    if (node.phase == Phase::forward && (reads & kByBackward)) return StorageCategory::saved_activations;
    return StorageCategory::temporaries;
  }

 private:
  bool is_reduction(std::size_t i) const {
    return moves_parameters_[i] && !out_of_parameters_[i] && graph_.nodes[i].phase != Phase::forward;
  }

  // Bits for the readers of a storage. kByOthers are readers that no bucketing pass made.
  enum Reader : unsigned { kByBackward = 1, kByUpdate = 2, kByReduction = 4, kByBlock = 8, kByOthers = 16 };

  // Finds the modules of forward nodes after the last node of a block. Gathers are ignored, since
  // they may be anywhere.
  void find_head() {
    std::size_t last = graph_.nodes.size();
    while (last > 0 && (graph_.nodes[last - 1].phase != Phase::forward || blocks_[last - 1] < 0 ||
                        moves_parameters_[last - 1]))
      --last;
    if (last == 0) return;
    for (std::size_t i = last; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.phase == Phase::forward && !node.module.empty() && blocks_[i] < 0 && !moves_parameters_[i])
        head_.insert(node.module);
    }
  }

  void scan_nodes() {
    IdMap<bool> derived(graph_.values.size());  // computed from parameters alone
    for (const Input& input : graph_.inputs) derived[input.value] = input.kind == InputKind::parameter;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      bool alone = moves_parameters_[i];
      for_each_operand(node, [&](ValueId id) { alone = alone && derived[id]; });
      out_of_parameters_.push_back(alone);
      for (ValueId result : node.results) derived[result] = alone;

      unsigned reader = 0;
      if (node.phase == Phase::backward) reader |= kByBackward;
      if (node.phase == Phase::update || node.op == kReturn) reader |= kByUpdate;
      if (is_reduction(i)) reader |= kByReduction;
      if (blocks_[i] >= 0 && !moves_parameters_[i]) reader |= kByBlock;
      if (!made_by_bucketing(node)) reader |= kByOthers;
      for_each_operand(node, [&](ValueId id) { reads_[roots_[id]] |= reader; });
    }
  }

  const Graph& graph_;
  const IdMap<ValueId>& roots_;
  IdMap<std::int32_t> blocks_;
  IdMap<unsigned> reads_;                      // by storage root: Reader bits
  std::unordered_set<std::string_view> head_;  // modules after the last block
  // By node: belongs to a parameter or a bucketing pass; is such a node with inputs from
  // parameters alone.
  IdMap<bool> moves_parameters_, out_of_parameters_;
};

// Returns every planned storage and workspace in schedule order. A storage whose memory is reused
// by a result ends one node earlier.
std::vector<PlannedStorage> planned_storages(const Graph& graph, const MemoryPlan& plan) {
  const IdMap<ValueId> roots = storage_roots(graph);
  const Classifier classifier(graph, roots);
  IdMap<std::int32_t> index(graph.values.size(), -1);  // of each root, in `storages`
  IdMap<PlannedStorage> storages;
  auto workspace = plan.workspaces.begin();
  const auto offset = [&](ValueId value) { return plan.offsets[value]; };
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    for (ValueId value : graph.nodes[i].results) {
      if (offset(value) < 0 || graph.value(value).on_host) continue;
      for_each_operand(graph.nodes[i], [&](ValueId operand) {
        const ValueId root = roots[operand];
        const std::int32_t other = index[root];
        if (other >= 0 && root != value && offset(root) == offset(value) && plan.ends[root] == i)
          storages[other].end = i - 1;
      });
      index[value] = static_cast<std::int32_t>(storages.size());
      storages.push_back({value, classifier.category(value, i),
                          planned_bytes(graph.value(value).type, plan.alignment), i, plan.ends[value]});
    }
    for (; workspace != plan.workspaces.end() && workspace->start == i; ++workspace)
      storages.push_back({std::get<Use>(graph.nodes[i].args.at(0)).value, StorageCategory::workspaces,
                          planned_bytes(workspace->bytes, plan.alignment), i, workspace->wait});
  }
  return storages;
}

IdMap<std::int64_t> live_bytes(const Graph& graph, const std::vector<PlannedStorage>& storages) {
  IdMap<std::int64_t> live(graph.nodes.size() + 1);
  for (const PlannedStorage& storage : storages) {
    live[storage.begin] += storage.bytes;
    live[storage.end + 1] -= storage.bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

void describe_peak(const Graph& graph, std::size_t largest, MemoryReport& report) {
  if (graph.nodes.empty()) return;
  const auto peak = std::max_element(report.live_bytes.begin(), report.live_bytes.end());
  report.peak_node = static_cast<std::size_t>(peak - report.live_bytes.begin());
  report.live_peak_bytes = *peak;
  const Node& node = graph.nodes[report.peak_node];
  report.peak_at =
      fmt::format("{}{}{}, {}", phase_name(node.phase), node.module.empty() ? "" : " ", node.module, node.op);
  std::vector<const PlannedStorage*> live;
  for (const PlannedStorage& storage : report.storages) {
    if (!storage.is_live_at(report.peak_node)) continue;
    report.peak_bytes[static_cast<std::size_t>(storage.category)] += storage.bytes;
    live.push_back(&storage);
  }
  const auto described = static_cast<std::ptrdiff_t>(std::min(largest, live.size()));
  std::partial_sort(live.begin(), live.begin() + described, live.end(),
                    [](const PlannedStorage* a, const PlannedStorage* b) {
                      return a->bytes != b->bytes
                                 ? a->bytes > b->bytes
                                 : std::pair(a->value, a->begin) < std::pair(b->value, b->begin);
                    });
  for (std::ptrdiff_t i = 0; i < described; ++i) {
    const PlannedStorage& storage = *live[i];
    const Node& maker = graph.nodes[storage.begin];
    report.largest.push_back({storage, maker.op, maker.module, print(graph.value(storage.value).type)});
  }
}

void sum_saved(const Graph& graph, MemoryReport& report) {
  const IdMap<std::int32_t> blocks = blocks_of_nodes(graph);
  std::map<std::string_view, SavedByModule> by_module;
  for (const PlannedStorage& storage : report.storages) {
    if (storage.category != StorageCategory::saved_activations) continue;
    const NodeIndex node = storage.begin;
    std::string_view module = graph.nodes[node].module;
    if (blocks[node] >= 0) {
      const std::size_t block = graph.blocks[blocks[node]].size();
      module = module.size() > block ? module.substr(block + 1) : "block";
    }
    SavedByModule& sum = by_module[module];
    sum.bytes += storage.bytes;
    ++sum.storages;
    report.saved_bytes += storage.bytes;
  }
  for (auto& [module, sum] : by_module) {
    sum.module = module;
    report.saved.push_back(std::move(sum));
  }
  std::stable_sort(report.saved.begin(), report.saved.end(),
                   [](const SavedByModule& a, const SavedByModule& b) { return a.bytes > b.bytes; });
}

std::string row(std::string_view name, std::int64_t bytes, std::int64_t total, const std::string& remark) {
  std::string line = fmt::format("  {:<18}{:>11}{:>7.1f} %", name, size_text(bytes),
                                 100.0 * static_cast<double>(bytes) / static_cast<double>(total));
  return remark.empty() ? line : line + "   " + remark;
}

// Names the three modules that save the most.
std::string saved_in_short(const MemoryReport& report) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, report.saved.size()); ++i)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", report.saved[i].module,
                        size_text(report.saved[i].bytes));
  return text;
}

}  // namespace

std::string_view category_name(StorageCategory category) {
  static constexpr std::array<std::string_view, kStorageCategories> kNames = {
      "buckets", "workspaces", "gradients", "weights", "head", "saved activations", "temporaries"};
  return kNames[static_cast<std::size_t>(category)];
}

std::string_view input_category_name(InputKind kind) {
  static constexpr std::array<std::string_view, kInputKinds> kNames = {"parameters", "optimizer", "buffers",
                                                                       "batch", "between bodies"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::int64_t MemoryReport::total_bytes() const {
  return std::accumulate(input_bytes.begin(), input_bytes.end(), arena_bytes);
}

std::int64_t MemoryReport::host_arena_bytes() const {
  return host_bytes - std::accumulate(host_input_bytes.begin(), host_input_bytes.end(), std::int64_t{0});
}

MemoryReport report_memory(const Graph& graph, const MemoryPlan& plan, std::size_t largest) {
  MemoryReport report;
  report.graph = graph.name;
  for (const Input& input : graph.inputs) {
    const Value& value = graph.value(input.value);
    auto& bytes = value.on_host ? report.host_input_bytes : report.input_bytes;
    bytes[static_cast<std::size_t>(input.kind)] += storage_bytes(value.type);
  }
  report.storages = planned_storages(graph, plan);
  report.live_bytes = live_bytes(graph, report.storages);
  report.arena_bytes = plan.arena_bytes;
  report.host_bytes =
      std::accumulate(report.host_input_bytes.begin(), report.host_input_bytes.end(), plan.host_arena_bytes);
  for (const Node& node : graph.nodes)
    if (is_collective(node, CollectiveKind::all_gather))
      report.largest_gather_bytes =
          std::max(report.largest_gather_bytes, storage_bytes(graph.value(node.results.at(0)).type));
  describe_peak(graph, largest, report);
  sum_saved(graph, report);
  return report;
}

std::vector<std::string> print_lines(const MemoryReport& report) {
  const std::int64_t total = std::max<std::int64_t>(1, report.total_bytes());
  std::vector<std::string> lines = {fmt::format("memory of {}: {} planned; the peak is at node {} of {}, {}",
                                                report.graph, size_text(report.total_bytes()),
                                                report.peak_node, report.live_bytes.size(), report.peak_at)};
  for (std::size_t kind = 0; kind < kInputKinds; ++kind)
    if (report.input_bytes[kind] > 0)
      lines.push_back(
          row(input_category_name(static_cast<InputKind>(kind)), report.input_bytes[kind], total, "always"));
  for (std::size_t i = 0; i < kStorageCategories; ++i) {
    const auto category = static_cast<StorageCategory>(i);
    const bool saved = category == StorageCategory::saved_activations;
    if (report.peak_bytes[i] > 0)
      lines.push_back(row(category_name(category), report.peak_bytes[i], total,
                          saved ? saved_in_short(report) : std::string()));
  }
  lines.push_back(row("fragmentation", report.fragmentation_bytes(), total, ""));
  if (report.host_bytes > 0)
    lines.push_back(fmt::format("  and {} in the host's memory", size_text(report.host_bytes)));
  for (std::size_t i = 0; i < std::min<std::size_t>(3, report.largest.size()); ++i) {
    const LargeStorage& large = report.largest[i];
    lines.push_back(fmt::format("  {} {}: {} {}, {}, nodes {} to {}",
                                i == 0 ? "largest tensor" : "         then", size_text(large.storage.bytes),
                                large.module, large.op, large.type, large.storage.begin, large.storage.end));
  }
  return lines;
}

}  // namespace rondo::ir

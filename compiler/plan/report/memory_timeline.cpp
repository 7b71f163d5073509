// The data of the page is JSON without spaces, with names once in lists and numbers in flat lists.
// The script in memory_timeline.html reads it and documents the numbers.
#include "compiler/plan/report/memory_timeline.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "compiler/analysis/bucketing.h"
#include "compiler/ops/op.h"
#include "compiler/plan/report/memory_timeline_page.h"
#include "compiler/text/text.h"
#include "support/text/html.h"

namespace rondo::ir {
namespace {

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Numbers distinct strings in the order of their first use.
class Names {
 public:
  std::size_t operator()(const std::string& name) {
    const auto [at, is_new] = index_.try_emplace(name, index_.size());
    if (is_new) json_ += (json_.empty() ? "" : ",") + json_string(name);
    return at->second;
  }
  std::string json() const { return "[" + json_ + "]"; }

 private:
  std::unordered_map<std::string, std::size_t> index_;
  std::string json_;
};

// A flat JSON list of numbers.
class Numbers {
 public:
  template <class... Number>
  void add(Number... numbers) {
    (fmt::format_to(std::back_inserter(json_), "{},", numbers), ...);
  }
  std::string json() const { return "[" + json_.substr(0, json_.empty() ? 0 : json_.size() - 1) + "]"; }

 private:
  std::string json_;
};

std::string nodes_json(const Graph& graph) {
  Names ops, modules;
  Numbers op, module;
  for (const Node& node : graph.nodes) {
    op.add(ops(node.op));
    module.add(modules(node.module));
  }
  return fmt::format(R"("ops":{},"modules":{},"op":{},"module":{})", ops.json(), modules.json(), op.json(),
                     module.json());
}

// Returns ranges of the schedule: [first node, one past the last, index] for each phase, and for
// each block within a phase. Nodes that passes may move away from their module, those of parameters
// and buckets, do not end a range.
std::string ranges_json(const Graph& graph) {
  std::unordered_set<std::string_view> parameters;
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::parameter) parameters.insert(input.name);
  const IdMap<std::int32_t> block_of = blocks_of_nodes(graph);
  Names blocks;
  Numbers phases, ranges;
  const std::size_t count = graph.nodes.size();
  const auto phase_of = [&](std::size_t i) { return static_cast<int>(graph.nodes[i].phase); };
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    while (end < count && phase_of(end) == phase_of(begin)) ++end;
    phases.add(begin, end, phase_of(begin));
    std::size_t first = begin, last = begin;  // the current range of `block`
    std::int32_t block = -1;
    const auto close = [&] {
      if (block >= 0) ranges.add(first, last + 1, blocks(graph.blocks[block]));
    };
    for (std::size_t i = begin; i < end; ++i) {
      const Node& node = graph.nodes[i];
      if (parameters.contains(node.module) || made_by_bucketing(node)) continue;
      if (block_of[i] != block) {
        close();
        block = block_of[i];
        first = i;
      }
      last = i;
    }
    close();
  }
  return fmt::format(R"("phases":{},"block_names":{},"blocks":{})", phases.json(), blocks.json(),
                     ranges.json());
}

std::string storages_json(const Graph& graph, const MemoryReport& report) {
  Names types;
  Numbers storages;
  for (const PlannedStorage& storage : report.storages)
    storages.add(storage.begin, storage.end - storage.begin, storage.bytes,
                 static_cast<int>(storage.category), types(print(graph.value(storage.value).type)));
  return fmt::format(R"("types":{},"storages":{})", types.json(), storages.json());
}

// Returns "all_gather_into_tensor" for "_c10d_functional.all_gather_into_tensor.default".
std::string kind_of(const std::string& op) {
  const std::size_t begin = op.find('.') + 1;
  return op.substr(begin, op.find('.', begin) - begin);
}

// Returns start and wait of each collective, its kind, its group, and the larger of its input and
// output bytes.
std::string collectives_json(const Graph& graph) {
  const IdMap<NodeIndex> waits = waits_of_starts(graph);
  Names kinds, groups;
  Numbers collectives;
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.nodes[i];
    if (facts(node.op).effect != Effect::collective_start) continue;
    std::int64_t read = 0, written = 0;
    for_each_operand(node, [&](ValueId id) { read += storage_bytes(graph.value(id).type); });
    for (ValueId result : node.results) written += storage_bytes(graph.value(result).type);
    collectives.add(i, waits[i] - i, kinds(kind_of(node.op)), std::max(read, written),
                    groups(std::string(collective_of(node)->group)));
  }
  return fmt::format(R"("kinds":{},"groups":{},"collectives":{})", kinds.json(), groups.json(),
                     collectives.json());
}

std::string totals_json(const MemoryReport& report) {
  Names inputs, categories, modules;
  Numbers input_bytes, saved;
  for (std::size_t i = 0; i < kInputKinds; ++i) {
    inputs(std::string(input_category_name(static_cast<InputKind>(i))));
    input_bytes.add(report.input_bytes[i]);
  }
  for (std::size_t i = 0; i < kStorageCategories; ++i)
    categories(std::string(category_name(static_cast<StorageCategory>(i))));
  for (const SavedByModule& row : report.saved) {
    modules(row.module);
    saved.add(row.bytes, row.storages);
  }
  return fmt::format(
      R"("name":{},"inputs":{},"input_bytes":{},"categories":{},"saved_modules":{},"saved":{},"arena":{},)"
      R"("peak":{},"peak_node":{})",
      json_string(report.graph), inputs.json(), input_bytes.json(), categories.json(), modules.json(),
      saved.json(), report.arena_bytes, report.live_peak_bytes, report.peak_node);
}

}  // namespace

std::string memory_timeline(const Graph& graph, const MemoryReport& report) {
  const std::string data =
      fmt::format("{{{},{},{},{},{}}}", totals_json(report), nodes_json(graph), ranges_json(graph),
                  storages_json(graph, report), collectives_json(graph));
  return filled_page(kMemoryTimelinePage,
                     {{"@TITLE@", escaped_html(report.graph)}, {"@DATA@", json_in_script(data)}});
}

}  // namespace rondo::ir

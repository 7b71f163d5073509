// Best fit over time: walk the schedule, take the smallest free block that fits, give blocks back at their
// last read and merge neighbours. O(n log n) for n storages.
#include "compiler/memory_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/op_facts.h"
#include "parallel/error.h"

namespace rondo::ir {
namespace {

constexpr std::int64_t kAlignment = 64;

// Free blocks of the arena by offset and by size; the arena grows at its end.
class FreeList {
 public:
  std::int64_t take(std::int64_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) return grow(bytes);
    const auto [size, offset] = *fit;
    remove(offset, size);
    if (size > bytes) add(offset + bytes, size - bytes);
    return offset;
  }

  void give_back(std::int64_t offset, std::int64_t bytes) {
    auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.end() && after->first == offset + bytes) {
      bytes += after->second;
      remove(after->first, after->second);
    }
    after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      const auto [before, size] = *std::prev(after);
      if (before + size == offset) {
        remove(before, size);
        offset = before;
        bytes += size;
      }
    }
    add(offset, bytes);
  }

  std::int64_t end() const { return end_; }

 private:
  // Nothing fits: extend the arena, together with a free block that already touches its end.
  std::int64_t grow(std::int64_t bytes) {
    std::int64_t offset = end_;
    if (!by_offset_.empty()) {
      const auto [last, size] = *by_offset_.rbegin();
      if (last + size == end_) {
        remove(last, size);
        offset = last;
      }
    }
    end_ = offset + bytes;
    return offset;
  }
  void add(std::int64_t offset, std::int64_t size) {
    by_offset_[offset] = size;
    by_size_.insert({size, offset});
  }
  void remove(std::int64_t offset, std::int64_t size) {
    by_size_.erase({size, offset});
    by_offset_.erase(offset);
  }

  std::map<std::int64_t, std::int64_t> by_offset_;
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;
  std::int64_t end_ = 0;
};

// Index of the last node at which each storage root must still stand.
std::vector<std::int32_t> last_needed(const Graph& graph, const std::vector<ValueId>& roots) {
  std::vector<std::int32_t> last(graph.values.size(), -1);
  const auto need = [&](ValueId value, std::int32_t node) {
    auto& at = last[static_cast<std::size_t>(roots[static_cast<std::size_t>(value)])];
    at = std::max(at, node);
  };
  std::map<ValueId, ValueId> sent;  // storage of a started collective -> storage it reads
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[static_cast<std::size_t>(i)];
    const OpFacts& op = facts(node.op);
    for (ValueId result : node.results) need(result, i);
    for_each_operand(node, [&](ValueId operand) {
      need(operand, i);
      const ValueId root = roots[static_cast<std::size_t>(operand)];
      if (op.effect == Effect::collective_start)
        sent[roots[static_cast<std::size_t>(node.results.at(0))]] = root;
      if (op.effect != Effect::wait) return;
      if (const auto found = sent.find(root); found != sent.end()) need(found->second, i);
    });
  }
  return last;
}

}  // namespace

MemoryPlan plan_memory(const Graph& graph) {
  const std::vector<ValueId> roots = storage_roots(graph);
  const std::vector<std::int32_t> last = last_needed(graph, roots);
  MemoryPlan plan;
  plan.offsets.assign(graph.values.size(), -1);
  std::vector<std::vector<ValueId>> ends(graph.nodes.size());
  FreeList free;
  std::int64_t live = 0;
  const auto bytes_of = [&](ValueId value) {
    return (storage_bytes(graph.value(value).type) + kAlignment - 1) / kAlignment * kAlignment;
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId result : graph.nodes[i].results) {
      if (roots[static_cast<std::size_t>(result)] != result) continue;
      const std::int64_t bytes = bytes_of(result);
      if (bytes == 0) continue;
      plan.offsets[static_cast<std::size_t>(result)] = free.take(bytes);
      ends[static_cast<std::size_t>(last[static_cast<std::size_t>(result)])].push_back(result);
      live += bytes;
    }
    plan.live_peak_bytes = std::max(plan.live_peak_bytes, live);
    for (ValueId value : ends[i]) {
      const std::int64_t bytes = bytes_of(value);
      free.give_back(plan.offsets[static_cast<std::size_t>(value)], bytes);
      live -= bytes;
    }
  }
  plan.arena_bytes = free.end();
  return plan;
}

}  // namespace rondo::ir

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
      if (runs_in_background(op.effect)) sent[roots[static_cast<std::size_t>(node.results.at(0))]] = root;
      if (op.effect != Effect::wait) return;
      if (const auto found = sent.find(root); found != sent.end()) need(found->second, i);
    });
  }
  return last;
}

class Planner {
 public:
  explicit Planner(const Graph& graph)
      : graph_(graph),
        roots_(storage_roots(graph)),
        last_(last_needed(graph, roots_)),
        ends_(graph.nodes.size()) {
    plan_.offsets.assign(graph.values.size(), -1);
  }

  MemoryPlan run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const ValueId given_up = take_over(i);
      for (ValueId result : graph_.nodes[i].results)
        if (root(result) == result && offset(result) < 0) place(result);
      plan_.live_peak_bytes = std::max(plan_.live_peak_bytes, live_);
      for (ValueId value : ends_[i])
        if (value != given_up) free(value);
    }
    plan_.arena_bytes = free_.end();
    plan_.host_arena_bytes = host_.end();
    plan_.ends = std::move(last_);
    return std::move(plan_);
  }

 private:
  ValueId root(ValueId value) const { return roots_[static_cast<std::size_t>(value)]; }
  std::int32_t last(ValueId value) const { return last_[static_cast<std::size_t>(value)]; }
  std::int64_t& offset(ValueId value) { return plan_.offsets[static_cast<std::size_t>(value)]; }
  std::int64_t bytes(ValueId value) const { return planned_bytes(graph_.value(value).type); }

  void place(ValueId value) {
    if (bytes(value) == 0) return;
    const bool on_host = graph_.value(value).on_host;
    offset(value) = (on_host ? host_ : free_).take(bytes(value));
    if (!on_host) live_ += bytes(value);
    ends_[static_cast<std::size_t>(last(value))].push_back(value);
  }
  void free(ValueId value) {
    const bool on_host = graph_.value(value).on_host;
    (on_host ? host_ : free_).give_back(offset(value), bytes(value));
    if (!on_host) live_ -= bytes(value);
  }

  // Gives the result of node `i` the memory of an operand that dies there, if the op allows it. Returns that
  // operand's storage, which must not be freed with the others, or kNoValue.
  ValueId take_over(std::size_t i) {
    const Node& node = graph_.nodes[i];
    const int argument = facts(node.op).reuses;
    if (argument < 0 || node.results.size() != 1) return kNoValue;
    const ValueId result = node.results[0];
    const ValueId operand = std::get<Use>(node.args[static_cast<std::size_t>(argument)]).value;
    const ValueId storage = root(operand);
    const bool dies = last(storage) == static_cast<std::int32_t>(i) && offset(storage) >= 0;
    const bool same =
        graph_.value(result).type == graph_.value(operand).type && bytes(result) == bytes(storage);
    if (!dies || !same || reads_twice(node, storage)) return kNoValue;
    offset(result) = offset(storage);
    ends_[static_cast<std::size_t>(last(result))].push_back(result);
    return storage;
  }
  bool reads_twice(const Node& node, ValueId storage) const {
    int reads = 0;
    for_each_operand(node, [&](ValueId operand) { reads += root(operand) == storage; });
    return reads > 1;
  }

  const Graph& graph_;
  std::vector<ValueId> roots_;
  std::vector<std::int32_t> last_;
  std::vector<std::vector<ValueId>> ends_;  // storages to free after each node
  FreeList free_, host_;
  MemoryPlan plan_;
  std::int64_t live_ = 0;
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph) { return Planner(graph).run(); }

std::int64_t planned_bytes(const TensorType& type) {
  return (storage_bytes(type) + kAlignment - 1) / kAlignment * kAlignment;
}

std::vector<Gap> free_gaps(const Graph& graph, const MemoryPlan& plan, std::size_t node) {
  std::vector<std::pair<std::int64_t, std::int64_t>> standing;  // begin, end
  for (std::size_t i = 0; i <= node; ++i)
    for (ValueId value : graph.nodes[i].results) {
      const std::int64_t offset = plan.offsets[static_cast<std::size_t>(value)];
      if (offset < 0 || graph.value(value).on_host ||
          plan.ends[static_cast<std::size_t>(value)] < static_cast<std::int32_t>(node))
        continue;
      standing.emplace_back(offset, offset + storage_bytes(graph.value(value).type));
    }
  std::sort(standing.begin(), standing.end());
  std::vector<Gap> gaps;
  std::int64_t free_from = 0;
  const auto add_gap = [&](std::int64_t to) {
    if (to > free_from) gaps.push_back({free_from, to - free_from});
  };
  for (const auto& [begin, end] : standing) {
    add_gap(begin);
    free_from = std::max(free_from, (end + kAlignment - 1) / kAlignment * kAlignment);
  }
  add_gap(plan.arena_bytes);
  return gaps;
}

}  // namespace rondo::ir

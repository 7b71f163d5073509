#include "compiler/analysis/transfers.h"

#include <utility>

#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"

namespace rondo::ir {
namespace {

constexpr std::int64_t kSmallest = 4096;  // bytes

}  // namespace

bool may_transfer(const TensorType& type) {
  return storage_bytes(type) >= kSmallest &&
         storage_bytes(type) == element_count(type) * dtype_bytes(type.dtype);
}

Transfers::Transfers(Graph& graph, std::string_view origin)
    : graph_(graph), origin_(origin), def_use_(graph), roots_(storage_roots(graph)) {}

ValueId Transfers::emit(std::string_view op, Value result, ValueId operand, const At& at) {
  const ValueId id = graph_.add_value(std::move(result));
  nodes_.push_back({.op = std::string(op),
                    .args = {Use{operand}},
                    .results = {id},
                    .phase = at.phase,
                    .module = std::string(at.module),
                    .origin = origin_});
  places_.push_back(at.place);
  return id;
}

ValueId Transfers::start(bool offloads, ValueId value, const At& at) {
  const ValueId started =
      emit(offloads ? kOffload : kReload, {.type = graph_.value(value).type, .on_host = offloads}, value, at);
  if (!offloads) modules_[started] = at.module;
  return started;
}

ValueId Transfers::wait(ValueId started, const At& at) {
  const Value& value = graph_.value(started);
  return emit(kWaitTransfer, {.type = value.type, .views = started, .on_host = value.on_host}, started, at);
}

void Transfers::read_reloaded(NodeIndex i, Reloaded& reloaded) {
  Node node = graph_.nodes[i];
  bool reads = false;
  for_each_operand(node, [&](ValueId& id) {
    if (static_cast<std::size_t>(id) >= roots_.size() || reloaded.reloads[roots_[id]] == kNoValue) return;
    const NodeIndex maker = def_use_.maker(id);
    if (maker != kNoNode && graph_.nodes[maker].phase == node.phase) return;
    id = stand_in(id, {i, -1}, reloaded);
    reads = true;
  });
  if (!reads) return;
  for (const ValueId result : node.results)
    if (const ValueId source = graph_.value(result).views; source != kNoValue)
      if (const ValueId other = reloaded.stand_ins[source]; other != kNoValue)
        new_sources_.emplace_back(result, other);
  new_readers_.emplace_back(i, std::move(node));
}

// A copy of a view is over the stand-in of its source.
ValueId Transfers::stand_in(ValueId id, Place before, Reloaded& reloaded) {
  if (const ValueId known = reloaded.stand_ins[id]; known != kNoValue) return known;
  if (const ValueId reload = reloaded.reloads[id]; reload != kNoValue)
    return reloaded.stand_ins[id] = wait(reload, {before, reloaded.phase, modules_.at(reload)});
  const ValueId original = graph_.value(id).views;
  const ValueId source = stand_in(original, before, reloaded);
  Node view = graph_.nodes[def_use_.maker(id)];
  view.phase = reloaded.phase;
  view.origin = origin_;
  for_each_operand(view, [&](ValueId& operand) {
    if (operand == original) operand = source;
  });
  for (ValueId& result : view.results) {
    Value value = graph_.value(result);
    value.views = source;
    const ValueId copy = graph_.add_value(std::move(value));
    reloaded.stand_ins[result] = copy;
    result = copy;
  }
  nodes_.push_back(std::move(view));
  places_.push_back(before);
  return reloaded.stand_ins[id];
}

void Transfers::finish(IdMap<Place> places) {
  for (auto& [i, node] : new_readers_) graph_.nodes[i] = std::move(node);
  for (const auto& [view, source] : new_sources_) graph_.value(view).views = source;
  add_and_reorder(graph_, std::move(places), std::move(nodes_), places_);
}

}  // namespace rondo::ir

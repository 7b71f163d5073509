// Each rule is one linear sweep with tables indexed by value. The order of the list matters: the
// first rules establish that indices are in range and definitions come before uses, which later
// rules require. Rules about memory use storage roots, so that they detect an overwrite through any
// view. A read is stale if the last write to its storage is later than the definition of the value.
// The verifier stops at the first broken rule.
#include "compiler/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/ops/segments.h"
#include "compiler/text/text.h"
#include "compiler/verify/infer_sharding.h"
#include "compiler/verify/op_rules.h"
#include "compiler/verify/parameter_owners.h"
#include "support/error.h"

namespace rondo::ir {
namespace {

bool is_of(const Graph& graph, ValueId id) { return static_cast<std::size_t>(id) < graph.values.size(); }

template <class F>
void for_each_node(const Graph& graph, F&& f) {
  for (NodeIndex i = 0; i < graph.node_count(); ++i) f(i, graph.nodes[i]);
}

void return_is_last(const Graph& graph) {
  if (graph.nodes.empty() || graph.nodes.back().op != kReturn)
    throw VerifyError{-1, "the last node is not return"};
  const NodeIndex last = graph.node_count() - 1;
  for_each_node(graph, [&](NodeIndex i, const Node& node) {
    if (node.op == kReturn && i != last) throw VerifyError{i, "return is not the last node"};
  });
  if (!graph.return_node().results.empty()) throw VerifyError{last, "return has a result"};
  for (const Argument& arg : graph.return_node().args)
    if (!std::holds_alternative<Use>(arg))
      throw VerifyError{last, "return has an argument that is not a value"};
}

void defined_once_above_use(const Graph& graph) {
  IdMap<bool> defined(graph.values.size(), false);
  const auto define = [&](NodeIndex i, ValueId id) {
    if (!is_of(graph, id)) throw VerifyError{i, fmt::format("%{} is not a value of this graph", id)};
    if (defined[id]) throw VerifyError{i, fmt::format("%{} is defined a second time", id)};
    defined[id] = true;
  };
  for (const Input& input : graph.inputs) define(-1, input.value);
  for_each_node(graph, [&](NodeIndex i, const Node& node) {
    for_each_operand(node, [&](ValueId id) {
      if (!is_of(graph, id) || !defined[id])
        throw VerifyError{i, fmt::format("reads %{}, which is not defined before", id)};
    });
    for (ValueId id : node.results) define(i, id);
  });
}

void inputs_are_named_once(const Graph& graph) {
  std::unordered_set<std::string_view> names(graph.inputs.size());
  for (const Input& input : graph.inputs) {
    if (!names.insert(input.name).second)
      throw VerifyError{-1, fmt::format("two inputs are named \"{}\"", input.name)};
    const Value& value = graph.value(input.value);
    if (value.views != kNoValue || value.writes != kNoValue)
      throw VerifyError{-1, fmt::format("input \"{}\" is marked as a view or a write", input.name)};
  }
}

void types_are_whole(const Graph& graph) {
  const auto check = [&](NodeIndex i, ValueId id) {
    const TensorType& type = graph.value(id).type;
    if (type.sizes.size() != type.strides.size())
      throw VerifyError{
          i, fmt::format("%{} has {} sizes and {} strides", id, type.sizes.size(), type.strides.size())};
    for (std::size_t dim = 0; dim < type.sizes.size(); ++dim)
      if (type.sizes[dim] < 0 || type.strides[dim] < 0)
        throw VerifyError{i, fmt::format("%{} has a negative size or stride: {}", id, print(type))};
  };
  for (const Input& input : graph.inputs) check(-1, input.value);
  for_each_node(graph, [&](NodeIndex i, const Node& node) {
    for (ValueId id : node.results) check(i, id);
  });
}

void marks_name_operands(const Graph& graph) {
  IdMap<std::int32_t> read_by(graph.values.size(), -1);
  for_each_node(graph, [&](NodeIndex i, const Node& node) {
    for_each_operand(node, [&](ValueId id) { read_by[id] = i; });
    for (ValueId id : node.results) {
      const Value& value = graph.value(id);
      if (value.views != kNoValue && value.writes != kNoValue)
        throw VerifyError{i, fmt::format("%{} both views and writes", id)};
      for (ValueId source : {value.views, value.writes})
        if (source != kNoValue && (!is_of(graph, source) || read_by[source] != i))
          throw VerifyError{i,
                            fmt::format("%{} views or writes %{}, which the node does not read", id, source)};
      if (value.writes != kNoValue && value.type != graph.value(value.writes).type)
        throw VerifyError{i, fmt::format("%{} is {} but overwrites %{}, a {}", id, print(value.type),
                                         value.writes, print(graph.value(value.writes).type))};
    }
  });
}

void phases_go_forward(const Graph& graph) {
  if (std::is_sorted(graph.nodes.begin(), graph.nodes.end() - 1,
                     [](const Node& a, const Node& b) { return a.phase < b.phase; }))
    return;
  IdMap<Phase> made_in(graph.values.size(), Phase::forward);
  for_each_node(graph, [&](NodeIndex i, const Node& node) {
    for_each_operand(node, [&](ValueId id) {
      if (made_in[id] > node.phase)
        throw VerifyError{i, fmt::format("is a {} node, but reads a result of a {} node",
                                         phase_name(node.phase), phase_name(made_in[id]))};
    });
    for (const ValueId id : node.results) made_in[id] = node.phase;
  });
}

// Note [Aliases]
void nothing_overwritten_is_read(const Graph& graph) {
  if (!overwrites(graph)) return;
  const IdMap<ValueId> roots = storage_roots(graph);
  const DefUse def_use(graph);
  IdMap<std::int32_t> written(graph.values.size(), -1);  // by root: the last node that wrote it
  for_each_node(graph, [&](NodeIndex i, const Node& node) {
    for_each_operand(node, [&](ValueId id) {
      const std::int32_t writer = written[roots[id]];
      if (writer > def_use.maker(id))
        throw VerifyError{i, fmt::format("reads %{}, whose storage node {} ({}) overwrote", id, writer,
                                         graph.nodes[writer].op)};
    });
    for (ValueId id : node.results) {
      const ValueId root = roots[id];
      if (graph.value(id).writes == kNoValue) continue;
      if (written[root] == i)
        throw VerifyError{i, fmt::format("overwrites the storage of %{} twice", graph.value(id).writes)};
      written[root] = i;
    }
  });
}

void batch_inputs_are_not_written(const Graph& graph) {
  if (!overwrites(graph)) return;
  const IdMap<ValueId> roots = storage_roots(graph);
  IdMap<bool> batch(graph.values.size(), false);
  for (const Input& input : graph.inputs) batch[input.value] = input.kind == InputKind::batch;
  for_each_node(graph, [&](NodeIndex i, const Node& node) {
    for (ValueId id : node.results)
      if (graph.value(id).writes != kNoValue && batch[roots[id]])
        throw VerifyError{i, fmt::format("overwrites the batch input %{}", roots[id])};
  });
}

// Between a start and its wait, no node reads the results or overwrites the operands.
void collectives_are_waited_for(const Graph& graph) {
  const IdMap<ValueId> roots = storage_roots(graph);
  IdMap<std::int32_t> started(graph.values.size(), -1);  // by pending result: its start
  IdMap<std::int32_t> sent(graph.values.size(), 0);      // by root: pending reads of it
  IdMap<std::int32_t> running(graph.nodes.size(), 0);    // by start: its pending results
  const auto release = [&](std::int32_t start) {
    if (--running[start] > 0) return;
    for_each_operand(graph.nodes[start], [&](ValueId id) { --sent[roots[id]]; });
  };
  IdMap<bool> waited(graph.values.size(), false);
  for_each_node(graph, [&](NodeIndex i, const Node& node) {
    const Effect effect = facts(node.op).effect;
    for_each_operand(node, [&](ValueId id) {
      const std::int32_t start = started[id];
      if (effect == Effect::wait) {
        if (waited[id]) throw VerifyError{i, fmt::format("waits for %{} a second time", id)};
        if (start < 0) throw VerifyError{i, fmt::format("waits for %{}, which no node started", id)};
        waited[id] = true;
        started[id] = -1;
        release(start);
      } else if (start >= 0) {
        throw VerifyError{i, fmt::format("reads %{} before the wait for it", id)};
      }
    });
    for (ValueId id : node.results) {
      if (graph.value(id).writes != kNoValue && sent[roots[id]] > 0)
        throw VerifyError{
            i, fmt::format("overwrites %{}, which a collective still reads", graph.value(id).writes)};
      if (effect == Effect::wait && graph.value(id).views == kNoValue)
        throw VerifyError{i, fmt::format("%{} does not view the awaited value", id)};
      if (!runs_in_background(effect)) continue;
      started[id] = i;
      ++running[i];
    }
    if (runs_in_background(effect)) for_each_operand(node, [&](ValueId id) { ++sent[roots[id]]; });
  });
  for_each_node(graph, [&](NodeIndex i, const Node&) {
    if (running[i] > 0) throw VerifyError{i, "starts work without a wait for it"};
  });
}

void outputs_are_whole(const Graph& graph) {
  const NodeIndex last = graph.node_count() - 1;
  const std::vector<Argument>& returned = graph.return_node().args;
  if (graph.outputs.size() != returned.size())
    throw VerifyError{last, fmt::format("{} outputs are named, but {} values are returned",
                                        graph.outputs.size(), returned.size())};
  std::unordered_set<std::string_view> names(graph.outputs.size());
  for (const Output& output : graph.outputs)
    if (!names.insert(output.name).second)
      throw VerifyError{last, fmt::format("two outputs are named \"{}\"", output.name)};
}

void updates_fit_their_inputs(const Graph& graph) {
  const NodeIndex last = graph.node_count() - 1;
  // By root: the input whose storage it is or becomes.
  IdMap<ValueId> owner(graph.values.size(), kNoValue);
  for (const Input& input : graph.inputs) owner[input.value] = input.value;
  IdMap<bool> updated(graph.inputs.size(), false);
  // By value of an input: its index, if its update is in another storage.
  IdMap<std::int32_t> replaced(graph.values.size(), -1);
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const Output& output = graph.outputs[i];
    if (output.updates < 0) continue;
    if (output.updates >= static_cast<int>(graph.inputs.size()))
      throw VerifyError{last, fmt::format("output \"{}\" updates an input that does not exist", output.name)};
    const auto target = static_cast<std::size_t>(output.updates);
    const Input& input = graph.inputs[target];
    const ValueId id = std::get<Use>(graph.return_node().args[i]).value;
    if (updated[target]) throw VerifyError{last, fmt::format("input \"{}\" is updated twice", input.name)};
    updated[target] = true;
    if (input.kind == InputKind::batch)
      throw VerifyError{last,
                        fmt::format("output \"{}\" updates the batch input \"{}\"", output.name, input.name)};
    if (graph.value(id).type != graph.value(input.value).type)
      throw VerifyError{last, fmt::format("output \"{}\" is {} but the input it updates is {}", output.name,
                                          print(graph.value(id).type), print(graph.value(input.value).type))};
    const ValueId root = storage_root(graph, id);
    if (root != input.value) replaced[input.value] = output.updates;
    ValueId& holder = owner[root];
    if (holder != kNoValue && holder != input.value)
      throw VerifyError{
          last, fmt::format("output \"{}\" shares its storage with another input or update", output.name)};
    holder = input.value;
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const Output& output = graph.outputs[i];
    if (output.updates >= 0) continue;
    const std::int32_t lost = replaced[storage_root(graph, std::get<Use>(graph.return_node().args[i]).value)];
    if (lost >= 0)
      throw VerifyError{last, fmt::format("output \"{}\" is the input \"{}\" before its update", output.name,
                                          graph.inputs[lost].name)};
  }
}

// An offload writes an update to the memory of its input, so nothing may read the input any more.
void host_state_is_updated_last(const Graph& graph) {
  const auto host_input = [&](const Output& output) {
    return output.updates >= 0 && graph.value(graph.inputs[output.updates].value).on_host;
  };
  const NodeIndex last = graph.node_count() - 1;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const Output& output = graph.outputs[i];
    const bool on_host = graph.value(operand(graph.return_node(), i)).on_host;
    if (on_host != host_input(output))
      throw VerifyError{last, fmt::format("output \"{}\" is {}on the host, but must {}be there", output.name,
                                          on_host ? "" : "not ", on_host ? "not " : "")};
  }
  if (std::none_of(graph.outputs.begin(), graph.outputs.end(), host_input)) return;
  const IdMap<ValueId> roots = storage_roots(graph);
  const IdMap<NodeIndex> needed = last_needed(graph, roots);
  const DefUse def_use(graph);
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    if (!host_input(graph.outputs[i])) continue;
    const Input& input = graph.inputs[graph.outputs[i].updates];
    const ValueId root = roots[operand(graph.return_node(), i)];
    const NodeIndex maker = def_use.maker(root);
    if (root == input.value) continue;
    if (maker == kNoNode || graph.value(root).type != graph.value(input.value).type)
      throw VerifyError{last,
                        fmt::format("output \"{}\" is no whole result of an offload", graph.outputs[i].name)};
    if (needed[input.value] >= maker)
      throw VerifyError{
          maker, fmt::format("writes the new content of \"{}\", which node {} ({}) still needs", input.name,
                             needed[input.value], graph.nodes[needed[input.value]].op)};
  }
}

// An overwritten input has lost its content, so an output must have the new one.
void overwritten_inputs_are_updates(const Graph& graph) {
  if (!overwrites(graph)) return;
  const IdMap<ValueId> roots = storage_roots(graph);
  IdMap<std::int32_t> writer(graph.values.size(), -1);
  for_each_node(graph, [&](NodeIndex i, const Node& node) {
    for (ValueId id : node.results)
      if (graph.value(id).writes != kNoValue) writer[roots[id]] = i;
  });
  for (const Output& output : graph.outputs)
    if (output.updates >= 0) writer[graph.inputs[output.updates].value] = -1;
  for (const Input& input : graph.inputs)
    if (writer[input.value] >= 0)
      throw VerifyError{writer[input.value],
                        fmt::format("overwrites the input \"{}\", but no output updates it", input.name)};
}

// Kernels read device memory; only transfers access host memory.
void only_transfers_touch_the_host(const Graph& graph) {
  for (const Input& input : graph.inputs)
    if (graph.value(input.value).on_host && input.kind != InputKind::parameter &&
        input.kind != InputKind::optimizer)
      throw VerifyError{
          -1, fmt::format("the {} input \"{}\" is in host memory", input_kind_name(input.kind), input.name)};
  for_each_node(graph, [&](NodeIndex i, const Node& node) {
    const bool offloads = node.op == kOffload, reloads = node.op == kReload;
    const bool may_read = reloads || node.op == kReturn || facts(node.op).effect == Effect::wait;
    for_each_operand(node, [&](ValueId id) {
      if (graph.value(id).on_host && !may_read)
        throw VerifyError{i, fmt::format("reads %{}, which is in host memory", id)};
    });
    for (ValueId id : node.results) {
      const Value& value = graph.value(id);
      const bool expected = value.views != kNoValue ? graph.value(value.views).on_host : offloads;
      if (value.on_host != expected)
        throw VerifyError{i, fmt::format("%{} is {}on the host", id, value.on_host ? "" : "not ")};
    }
  });
}

constexpr std::array kRules = {
    Rule{"return_is_last", "one return node, the last, that returns values", &return_is_last},
    Rule{"defined_once_above_use", "every value is defined once, before its use", &defined_once_above_use},
    Rule{"inputs_are_named_once", "input names are unique, and inputs are not views", &inputs_are_named_once},
    Rule{"types_are_whole", "a stride for each size, and neither is negative", &types_are_whole},
    Rule{"marks_name_operands", "views and writes name an operand of the node; a write keeps its type",
         &marks_name_operands},
    Rule{"reused_memory_is_a_values", "an operand whose memory a result may reuse is a value",
         &reused_memory_is_a_values},
    Rule{"result_counts",
         "collectives, views, heavy ops and ops with an in-place form have the number of results of their op",
         &result_counts},
    Rule{"schemas_are_kept", "ops with a signature have the arguments and results of their schema",
         &schemas_are_kept},
    Rule{"moves_are_described",
         "collectives, transfers and views name a tensor, and collectives their group, ranks and reduction",
         &moves_are_described},
    Rule{"phases_go_forward", "no node reads a result of a later phase", &phases_go_forward},
    Rule{"nothing_overwritten_is_read", "after a write, no older value of that storage is read",
         &nothing_overwritten_is_read},
    Rule{"batch_inputs_are_not_written", "no node overwrites a batch input", &batch_inputs_are_not_written},
    Rule{"collectives_are_waited_for",
         "each start has one wait after it; until then no node reads its result or overwrites its operand",
         &collectives_are_waited_for},
    Rule{"only_transfers_touch_the_host",
         "values in host memory are state or results of an offload, and only a reload or a wait reads them",
         &only_transfers_touch_the_host},
    Rule{"outputs_are_whole", "a unique name for each returned value", &outputs_are_whole},
    Rule{"updates_fit_their_inputs",
         "an update has the type of its input, an input one update, and no two share a storage",
         &updates_fit_their_inputs},
    Rule{"host_state_is_updated_last",
         "state in host memory is updated by an offload after its last reload; other outputs are on the "
         "device",
         &host_state_is_updated_last},
    Rule{"overwritten_inputs_are_updates", "an input that is overwritten is updated by an output",
         &overwritten_inputs_are_updates},
    Rule{"segments_can_be_recorded",
         "marked segments ascend, have no host read, and have each start with its wait; no work is "
         "outside",
         &check_segments},
    Rule{"shardings_agree",
         "on each axis of the mesh every op accepts its operands, updates are sharded like their inputs, and "
         "results are equal on all ranks",
         &shardings_agree},
    Rule{"parameters_keep_their_places",
         "values that are gathered, reduced and updated for a parameter belong to it",
         &parameters_keep_their_places},
};

}  // namespace

std::span<const Rule> rules() { return kRules; }

void verify(const Graph& graph, std::string_view after_pass) {
  for (const Rule& rule : kRules) {
    try {
      rule.check(graph);
    } catch (const VerifyError& error) {
      std::string where;
      if (error.node >= 0) {
        const Node& node = graph.nodes[error.node];
        where = fmt::format("node {} ({}{}{}) ", error.node, node.op, node.module.empty() ? "" : ", module ",
                            node.module);
      }
      throw RuleBroken(ExitCode::graph, fmt::format("the graph {} breaks rule {} after {}: {}{}", graph.name,
                                                    rule.name, after_pass, where, error.what));
    }
  }
}

}  // namespace rondo::ir

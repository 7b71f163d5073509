// Adds copies between device and host memory to a graph (ops/transfer/transfer.h), and makes nodes
// read what was reloaded.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/analysis/schedule.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/ir.h"

namespace rondo::ir {

// Returns true for tensors of at least 4 KiB without gaps in memory. The start of a copy of a
// smaller one takes longer than its bytes.
bool may_transfer(const TensorType& type);

// Values that are reloaded for the nodes of one phase.
struct Reloaded {
  Phase phase = Phase::backward;
  IdMap<ValueId> reloads;         // by root of a storage: the result of its reload, or kNoValue
  IdMap<ValueId> stand_ins = {};  // by value: the one with its content on the device, or kNoValue
};

class Transfers {
 public:
  // `origin` is the name of the pass.
  Transfers(Graph& graph, std::string_view origin);

  struct At {
    Place place;
    Phase phase;
    std::string_view module;
  };
  // Return the result of the new node.
  ValueId offload(ValueId value, const At& at) { return start(kOffloads, value, at); }
  ValueId reload(ValueId value, const At& at) { return start(kReloads, value, at); }
  ValueId wait(ValueId started, const At& at);

  // Makes node `i` read reloaded values in place of originals that are inputs or of another phase.
  // The wait for a reload, and copies of views, come right before their first reader.
  void read_reloaded(NodeIndex i, Reloaded& reloaded);

  // Adds the new nodes and sorts. `places` are those of the old nodes.
  void finish(IdMap<Place> places);

 private:
  static constexpr bool kOffloads = true, kReloads = false;
  ValueId start(bool offloads, ValueId value, const At& at);
  ValueId emit(std::string_view op, Value result, ValueId operand, const At& at);
  ValueId stand_in(ValueId id, Place before, Reloaded& reloaded);

  Graph& graph_;
  std::string origin_;
  DefUse def_use_;
  IdMap<ValueId> roots_;
  std::vector<Node> nodes_;
  std::vector<Place> places_;
  std::map<ValueId, std::string> modules_;  // by result of a reload
  // The readers of reloaded values, and the sources of views. The graph keeps the old ones until
  // finish(), since views of one phase are copied for another.
  std::vector<std::pair<NodeIndex, Node>> new_readers_;
  std::vector<std::pair<ValueId, ValueId>> new_sources_;
};

}  // namespace rondo::ir

// Values that share a storage, and nodes that overwrite it. Note [Aliases] in ir.h defines the
// marks.
#pragma once

#include "compiler/ir/ir.h"

namespace rondo::ir {

// Returns the value whose storage has `id`: follows `views` and `writes` to the end.
ValueId storage_root(const Graph& graph, ValueId id);
// Returns the root of every value, in linear time. REQUIRES: values are defined before their use.
IdMap<ValueId> storage_roots(const Graph& graph);

// Returns true if any node overwrites an operand.
bool overwrites(const Graph& graph);
// Returns, by root, whether a node overwrites its storage through any view.
IdMap<bool> overwritten_storages(const Graph& graph, const IdMap<ValueId>& roots);

}  // namespace rondo::ir

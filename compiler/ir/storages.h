// Which values share a storage, and which nodes overwrite it. Note [Aliases] in ir.h says
// what the marks mean.
#pragma once

#include "compiler/ir/ir.h"

namespace rondo::ir {

// The value whose storage `id` lives in: follows `views` and `writes` to the end.
ValueId storage_root(const Graph& graph, ValueId id);
// The same for every value at once, in linear time. REQUIRES: values are defined above their use.
IdMap<ValueId> storage_roots(const Graph& graph);

// Whether any node overwrites an operand.
bool overwrites(const Graph& graph);
// Of each root: whether a node overwrites its storage, through any view.
IdMap<bool> overwritten_storages(const Graph& graph, const IdMap<ValueId>& roots);

}  // namespace rondo::ir

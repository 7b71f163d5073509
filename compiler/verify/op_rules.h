// Rules of single nodes. Each node has the arguments and results of its op, as far as
// compiler/ops/op.h describes them, so passes may read them unchecked. All throw VerifyError.
#pragma once

#include "compiler/ir/ir.h"

namespace rondo::ir {

void reused_memory_is_a_values(const Graph& graph);
void result_counts(const Graph& graph);
void schemas_are_kept(const Graph& graph);
void moves_are_described(const Graph& graph);

}  // namespace rondo::ir

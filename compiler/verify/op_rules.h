// Rules of single nodes: each has the arguments and results that its op must have, as far as
// compiler/ops/op.h tells. So passes may take such nodes apart without asking.
//
// All throw VerifyError.
#pragma once

#include "compiler/ir/ir.h"

namespace rondo::ir {

void reused_memory_is_a_values(const Graph& graph);
void result_counts(const Graph& graph);
void schemas_are_kept(const Graph& graph);
void moves_are_described(const Graph& graph);

}  // namespace rondo::ir

// Ranks whose steps call different collectives would wait for each other for ever.
#pragma once

#include <vector>

#include "compiler/compile.h"
#include "parallel/groups/groups.h"

namespace rondo {

// All ranks call it, with the same steps in the same order. Throws Error(graph) on each, naming the first
// collective that differs. Hashes are exchanged, and texts only where those differ.
void compare_collectives(const std::vector<const CompiledStep*>& steps, ProcessGroups& groups);

}  // namespace rondo

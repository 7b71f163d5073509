// Draws a memory report as one HTML page without external resources, for any browser, in light and
// dark mode. Plain C++.
//
// The page shows the live bytes over the schedule by category, with phases and blocks. It lists the
// storages at the peak or at a selected node, the collectives from start to wait, and the saved
// activations by module. It contains the storages themselves, about 20 bytes a node, so its curve
// is exact at every node and zoom.
#pragma once

#include <string>

#include "compiler/ir/ir.h"
#include "compiler/plan/report/memory_report.h"

namespace rondo::ir {

// `report` is report_memory(graph, plan). The same graph gives the same bytes. Names may have
// any characters.
std::string memory_timeline(const Graph& graph, const MemoryReport& report);

}  // namespace rondo::ir

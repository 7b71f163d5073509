// A picture of a memory report: one HTML page without external resources, for any browser, offline, light and
// dark. Plain C++.
//
// It shows the live bytes over the schedule by category, with the phases and blocks; what stands at the peak
// or at any node that is clicked; collectives from start to wait; saved activations by module. The page holds
// the storages themselves, so its curve is exact at every node and every zoom: about 20 bytes a node.
#pragma once

#include <string>

#include "compiler/ir/ir.h"
#include "compiler/report/memory_report.h"

namespace rondo::ir {

// `report` is report_memory(graph, plan). The same graph gives the same bytes. Names may hold any characters.
std::string memory_timeline(const Graph& graph, const MemoryReport& report);

}  // namespace rondo::ir

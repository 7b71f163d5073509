// Formats memory as JSON: the plan of a graph, and the memory of the process.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "compiler/plan/report/memory_report.h"

namespace rondo {

// Returns the numbers of a planned graph, as in the event `memory`.
nlohmann::ordered_json memory_json(const ir::MemoryReport& memory);
// Returns the storages at the peak, largest first, and the bytes saved for the backward by module.
nlohmann::ordered_json memory_details_json(const ir::MemoryReport& memory);
// Returns the memory of this process as counted by the kernel: resident, proportional and peak
// resident bytes.
nlohmann::ordered_json process_memory_json();

}  // namespace rondo

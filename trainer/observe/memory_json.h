// Memory as JSON: what a graph plans, and what the process has.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "compiler/report/memory_report.h"

namespace rondo {

// The numbers of a planned graph, as in the event `memory`.
nlohmann::ordered_json memory_json(const ir::MemoryReport& memory);
// What stands at its peak, largest first, and what it saves for the backward by module.
nlohmann::ordered_json memory_details_json(const ir::MemoryReport& memory);
// Of this process, as the kernel counts: resident and proportional bytes, and the most that were resident.
nlohmann::ordered_json process_memory_json();

}  // namespace rondo

// A plan as aligned text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/search.h"

namespace rondo {

// `search` is nullopt unless ways were searched: ways to fit for a job that does not fit, or else
// faster ways.
std::string plan_text(const JobPlan& plan, const std::optional<SearchResult>& search);
// A line about a way that is better than all before, with its flags.
std::string improvement_text(const Improvement& improvement);

// One term of the sum in the total.
struct MemoryRow {
  std::string name;
  std::int64_t bytes;
};
std::vector<MemoryRow> memory_rows(const PlannedMemory& memory);

}  // namespace rondo

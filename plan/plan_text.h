// A plan as aligned text: whether the job fits and how fast it is, then the details.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/search.h"

namespace rondo {

// `verbose` adds the kernels of a step, the decisions of the passes, and the time that planning
// took.
std::string plan_text(const JobPlan& plan, bool verbose = false);
// Returns what a search found: ways to fit for a job that does not fit, or else faster ways.
std::string ways_text(const JobPlan& plan, const SearchResult& search);
// A line about a way that is better than all before, with its flags.
std::string improvement_text(const Improvement& improvement);

// Formats 8030261248 as 8,030,261,248.
std::string grouped(std::int64_t number);

// One term of the sum in the total.
struct MemoryRow {
  std::string name;
  std::int64_t bytes;
};
std::vector<MemoryRow> memory_rows(const PlannedMemory& memory);

}  // namespace rondo

// A plan for people, as aligned text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/remedies.h"

namespace rondo {

// `remedies`: of a job that does not fit; of one that fits what is faster; if they were searched.
std::string plan_text(const JobPlan& plan, const std::optional<Remedies>& remedies);

// What the total is the sum of.
struct MemoryRow {
  std::string name;
  std::int64_t bytes;
};
std::vector<MemoryRow> memory_rows(const PlannedMemory& memory);

}  // namespace rondo

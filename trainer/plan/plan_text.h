// A plan for people, as aligned text, and for programs, as JSON: the same numbers.
#pragma once

#include <optional>
#include <string>

#include "trainer/plan/plan.h"
#include "trainer/plan/remedies.h"

namespace rondo {

// `remedies`: of a job that does not fit, if they were searched.
std::string plan_text(const JobPlan& plan, const std::optional<Remedies>& remedies);
std::string plan_json(const JobPlan& plan, const std::optional<Remedies>& remedies);

}  // namespace rondo

// A plan for programs: the numbers of its text (plan_text.h), without rounding.
#pragma once

#include <optional>
#include <string>

#include "plan/plan.h"
#include "plan/remedies.h"

namespace rondo {

// `remedies` as for the text: under "remedies", or, of a job that fits, "faster".
std::string plan_json(const JobPlan& plan, const std::optional<Remedies>& remedies);

}  // namespace rondo

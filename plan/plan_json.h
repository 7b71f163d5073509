// A plan as JSON: the numbers of its text (plan_text.h) without rounding.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/search.h"

namespace rondo {

// `search` is as for plan_text. Its key is "remedies", or "faster" for a job that fits.
std::string plan_json(const JobPlan& plan, const std::optional<SearchResult>& search);
// Returns an object whose key "plans" has an object for each plan, as plan_json.
std::string plans_json(const std::vector<JobPlan>& plans);

}  // namespace rondo

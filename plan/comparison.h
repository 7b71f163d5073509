// Plans of one configuration on several numbers of ranks or devices, side by side.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace rondo {

// Returns a table with a row for each plan, in their order. Time, hours and price are of `tokens`
// tokens; 0: 20 tokens a parameter. REQUIRES: the plans are of one configuration, those of one
// device one after the other.
std::string comparison_text(const std::vector<JobPlan>& plans, std::int64_t tokens);

// Returns an SVG of tokens/s over ranks on logarithmic axes, a line for each device, beside the
// line of its first plan's speed a rank. A plan that does not fit has a hollow point. The same
// plans give the same bytes. REQUIRES: as above, and each device has at least two numbers of ranks.
std::string scaling_svg(const std::vector<JobPlan>& plans);

}  // namespace rondo

// Writes one page of HTML about one or more runs: curves, comparison, events, environment, experts.
// Styles, script and data are in the page, so it needs no network.
#pragma once

#include <string>
#include <vector>

#include "runs/run_record.h"

namespace rondo {

// Returns the page. REQUIRES: at least one run.
std::string report_page(const std::vector<RunRecord>& runs);

}  // namespace rondo

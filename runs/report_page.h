// One page of HTML about one or more runs: curves, comparison, events, environment, experts. It needs no
// network: styles, script and data are in it.
#pragma once

#include <string>
#include <vector>

#include "runs/run_record.h"

namespace rondo {

// REQUIRES: at least one run.
std::string report_page(const std::vector<RunRecord>& runs);

}  // namespace rondo

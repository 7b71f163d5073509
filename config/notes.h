// Finds settings that are valid but have no effect, or another effect than a user may expect.
#pragma once

#include <string>
#include <vector>

#include "config/rules.h"

namespace rondo {

// Returns a line for each: flags without effect, a schedule that is cut short, overlaps that hide
// nothing, and torchtitan's keys (torchtitan_notes).
std::vector<std::string> notes_on(const JobConfig& config, const Origins& origins);

}  // namespace rondo

// A schedule as text for a terminal: one line a rank, time from left to right, torch's
// action texts.
#pragma once

#include <cstdint>
#include <string>

#include "parallel/pipeline/simulate.h"

namespace rondo::pipeline {

// Returns the grid, in colour or with dots where a rank waits. Returns "" where a line would exceed
// `columns`. REQUIRES: `timeline` has spans.
std::string to_grid(const Timeline& timeline, std::int64_t columns, bool color);

}  // namespace rondo::pipeline

// A schedule in a terminal: a line a rank, time from left to right, torch's text of each action.
#pragma once

#include <cstdint>
#include <string>

#include "parallel/pipeline/simulate.h"

namespace rondo::pipeline {

// `timeline`: with spans. In colour, or with dots where a rank waits. "" where a line would be longer than
// `columns`.
std::string to_grid(const Timeline& timeline, std::int64_t columns, bool color);

}  // namespace rondo::pipeline

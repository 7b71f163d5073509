// Reads training.skip_data_of_steps, a list of training steps ("15000") and of inclusive ranges of
// them ("12000-12040").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

// Steps `first` to `last`, counted from 1.
struct StepRange {
  std::int64_t first = 1, last = 1;
};

// Returns the ranges in their order. Sets `rule`, if given, to the broken rule ("must ...").
std::vector<StepRange> read_step_ranges(const std::vector<std::string>& entries, std::string* rule = nullptr);

}  // namespace rondo

// Parses Slurm's compressed lists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// Expands a host list in the order of `scontrol show hostnames`: "n[0-1,07],m3" -> n0 n1 n07 m3.
// Several brackets in one name multiply: "r[1-2]n[1-2]" -> r1n1 r1n2 r2n1 r2n2. Widths are kept:
// [08-11] -> 08 09 10 11. Throws Error(environment) for text that is not such a list, or that has
// over 65536 characters or names.
std::vector<std::string> expand_hostlist(std::string_view text);

// Expands SLURM_TASKS_PER_NODE: "2(x3),1" -> 2 2 2 1. Throws as above.
std::vector<int> expand_counts(std::string_view text);

}  // namespace rondo

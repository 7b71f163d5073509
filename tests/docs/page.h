// Blocks of code in README and docs.
#pragma once

#include <string>
#include <vector>

#include "tests/runs/metrics/scratch.h"

namespace rondo {

// Lines of the first block of code below `heading` in `page`, a path from the root, without what
// stands behind two blanks and a #. None where there is no such block.
inline std::vector<std::string> block_below(const std::string& page, const std::string& heading) {
  std::vector<std::string> lines;
  bool below = false, inside = false;
  for (std::string line : lines_of(std::filesystem::path(RONDO_SOURCE_DIR) / page)) {
    below = below || line == heading;
    if (!below) continue;
    if (line.starts_with("```")) {
      if (inside) return lines;
      inside = true;
    } else if (inside) {
      line = line.substr(0, line.find("  #"));
      lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
    }
  }
  return {};
}

}  // namespace rondo

// The text of README and docs.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/runs/metrics/scratch.h"

namespace rondo {

inline const std::filesystem::path kRoot = RONDO_SOURCE_DIR;

inline std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// `page`: a path from the root.
inline void must_have(const std::string& page, const std::string& line) {
  INFO(page << " should have this line:\n" << line);
  CHECK_FALSE(line.empty());
  CHECK(text_of(kRoot / page).find(line) != std::string::npos);
}

// Lines of the first block of code below `heading` in `page`, a path from the root, without what
// stands behind two blanks and a #. None where there is no such block.
inline std::vector<std::string> block_below(const std::string& page, const std::string& heading) {
  std::vector<std::string> lines;
  bool below = false, inside = false;
  for (std::string line : lines_of(kRoot / page)) {
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

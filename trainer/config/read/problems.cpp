#include "trainer/config/read/problems.h"

#include "support/error.h"

namespace rondo {

void Problems::throw_if_any() const {
  if (lines_.empty()) return;
  if (lines_.size() == 1) throw Error(ExitCode::config, lines_[0]);
  std::string all = "the configuration has " + std::to_string(lines_.size()) + " problems:";
  for (const std::string& line : lines_) all += "\n  " + line;
  throw Error(ExitCode::config, all);
}

}  // namespace rondo

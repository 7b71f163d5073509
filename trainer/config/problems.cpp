#include "trainer/config/problems.h"

#include "parallel/error.h"

namespace rondo {

void Problems::throw_if_any() const {
  if (lines_.empty()) return;
  std::string all;
  for (const std::string& line : lines_) all += (all.empty() ? "" : "\n") + line;
  throw Error(ExitCode::config, all);
}

}  // namespace rondo

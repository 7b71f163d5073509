#include "config/read/problems.h"

#include <algorithm>

#include "support/error.h"

namespace rondo {

std::vector<std::string> Problems::set_aside(
    const std::function<bool(const std::string& key)>& does_not_count) {
  std::vector<std::string> lines;
  std::erase_if(problems_, [&](const Problem& problem) {
    const bool aside = !problem.key.empty() && does_not_count(problem.key);
    if (aside) lines.push_back(problem.line);
    return aside;
  });
  return lines;
}

void Problems::throw_if_any() const {
  if (problems_.empty()) return;
  if (problems_.size() == 1) throw Error(ExitCode::config, problems_[0].line);
  std::string text = "the configuration has " + std::to_string(problems_.size()) + " problems:";
  for (std::size_t i = 0; i < std::min(problems_.size(), kShown); ++i) text += "\n  " + problems_[i].line;
  if (problems_.size() > kShown) text += "\n  and " + std::to_string(problems_.size() - kShown) + " more";
  throw Error(ExitCode::config, text);
}

}  // namespace rondo

// What is wrong with a configuration: every problem is collected, and all are reported in one Error.
#pragma once

#include <string>
#include <vector>

namespace rondo {

class Problems {
 public:
  // `place`: "configs/x.toml:12:3" or "command line"; `text`: "training.steps = 0: must be at least 1".
  void add(const std::string& place, const std::string& text) { lines_.push_back(place + ": " + text); }
  bool empty() const { return lines_.empty(); }
  // Error(ExitCode::config) with a line per problem, if there is any; the line alone if it is the only one.
  void throw_if_any() const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace rondo

// Collects all problems of a configuration and reports them in one Error.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/printable.h"

namespace rondo {

class Problems {
 public:
  // `place`: "configs/x.toml:12:3" or "command line". `text`: "training.steps = 0: must be at least
  // 1". `key`: the key whose value is broken, if any.
  void add(const std::string& place, const std::string& text, const std::string& key = "") {
    problems_.push_back({printable(place + ": " + text, kLongestLine), key});
  }
  bool empty() const { return problems_.empty(); }
  // True from 50 problems on. Callers then skip expensive suggestions.
  bool are_many() const { return problems_.size() >= kShown; }
  // Removes the problems of keys for which `does_not_count` is true, and returns their lines.
  std::vector<std::string> set_aside(const std::function<bool(const std::string& key)>& does_not_count);
  // Throws Error(config) if there are problems: the line of a single problem, or a line for each of
  // the first 50.
  void throw_if_any() const;

 private:
  static constexpr std::size_t kShown = 50, kLongestLine = 2000;
  struct Problem {
    std::string line, key;
  };
  std::vector<Problem> problems_;
};

}  // namespace rondo

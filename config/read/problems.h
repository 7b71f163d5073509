// What is wrong with a configuration: every problem is collected, and all are reported in one Error.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/text/printable.h"

namespace rondo {

class Problems {
 public:
  // `place`: "configs/x.toml:12:3" or "command line"; `text`: "training.steps = 0: must be at least 1";
  // `key`: whose value it is about, if it is about one.
  void add(const std::string& place, const std::string& text, const std::string& key = "") {
    problems_.push_back({printable(place + ": " + text, kLongestLine), key});
  }
  bool empty() const { return problems_.empty(); }
  // More than a person reads: what costs time is not looked for any longer.
  bool are_many() const { return problems_.size() >= kShown; }
  // Takes out the problems of keys whose value does not count, and returns their lines.
  std::vector<std::string> set_aside(const std::function<bool(const std::string& key)>& does_not_count);
  // Error(ExitCode::config) with a line for each of the first 50 problems, if there are any; the line alone
  // if it is the only one.
  void throw_if_any() const;

 private:
  static constexpr std::size_t kShown = 50, kLongestLine = 2000;
  struct Problem {
    std::string line, key;
  };
  std::vector<Problem> problems_;
};

}  // namespace rondo

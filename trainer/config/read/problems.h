// What is wrong with a configuration: every problem is collected, and all are reported in one Error.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace rondo {

class Problems {
 public:
  // `place`: "configs/x.toml:12:3" or "command line"; `text`: "training.steps = 0: must be at least 1";
  // `key`: whose value it is about, if it is about one.
  void add(const std::string& place, const std::string& text, const std::string& key = "") {
    problems_.push_back({place + ": " + text, key});
  }
  bool empty() const { return problems_.empty(); }
  // Takes out the problems of keys whose value does not count, and returns their lines.
  std::vector<std::string> set_aside(const std::function<bool(const std::string& key)>& does_not_count);
  // Error(ExitCode::config) with a line per problem, if there is any; the line alone if it is the only one.
  void throw_if_any() const;

 private:
  struct Problem {
    std::string line, key;
  };
  std::vector<Problem> problems_;
};

}  // namespace rondo

// Finds the processes of a run by a mark in their environment, which they inherit from the test.
#pragma once

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/launch/process.h"

namespace rondo {

// Returns the words of `rondo launch ...` in the form of launch::Launch.
inline std::vector<std::string> without_launch(const std::vector<std::string>& words) {
  return {words.begin() + 1, words.end()};
}

class Mark {
 public:
  static constexpr const char* kVariable = "RONDO_TEST_MARK";

  std::pair<std::string, std::string> setting() const { return {kVariable, value_}; }

  // Returns the processes that are alive; zombies are not. `variable`: only processes with this
  // entry, such as "RANK=1".
  std::vector<int> processes(const std::string& variable = "") const {
    std::vector<int> pids;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
        continue;
      const std::string environment = '\0' + text_of(entry.path() / "environ");
      if (!has(environment, std::string(kVariable) + "=" + value_)) continue;
      if (!variable.empty() && !has(environment, variable)) continue;
      if (!launch::is_gone(std::stoi(name))) pids.push_back(std::stoi(name));
    }
    return pids;
  }
  bool all_gone() const {
    return launch::holds_soon([&] { return processes().empty(); });
  }

 private:
  static bool has(const std::string& environment, const std::string& entry) {
    return environment.find('\0' + entry + '\0') != std::string::npos;
  }

  const std::string value_ = std::to_string(getpid()) + "." +
                             std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
};

}  // namespace rondo

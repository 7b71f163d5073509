// A folder of test data that goes away with its owner, and the error that a data path ends in.
#pragma once

#include <filesystem>
#include <string>

#include "support/error.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {

class TempFolder : public Scratch {
 public:
  std::string write(const std::string& name, const std::string& contents) const {
    write_text(path(name), contents);
    return path(name);
  }

  void link(const std::string& target, const std::string& name) const {
    std::filesystem::create_symlink(target, path(name));
  }
};

// The message of the Error(data) that `action` throws; "no error" or the wrong code otherwise.
template <class Action>
std::string data_error(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) return "wrong exit code: " + std::string(error.what());
    return error.what();
  }
  return "no error";
}

}  // namespace rondo

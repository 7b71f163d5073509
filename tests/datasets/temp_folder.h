// A temporary folder of test data, removed by the destructor, and the message of an Error(data).
#pragma once

#include <filesystem>
#include <string>

#include "support/error.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {

class TempFolder : public Scratch {
 public:
  // A new file each time: ext4 writes one that was truncated to disk when it is closed.
  std::string write(const std::string& name, const std::string& contents) const {
    std::filesystem::remove(path(name));
    write_text(path(name), contents);
    return path(name);
  }

  void link(const std::string& target, const std::string& name) const {
    std::filesystem::create_symlink(target, path(name));
  }
};

// Returns the message of the Error(data) that `action` throws. Without one returns "no error" or
// "wrong exit code: ...".
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

// A folder of test data that goes away with its owner, and the error that a data path ends in.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/error.h"

namespace rondo {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rondo_data_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    root_ = pattern;
  }
  ~TempFolder() { std::filesystem::remove_all(root_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path(const std::string& name = "") const { return name.empty() ? root_ : root_ + "/" + name; }

  std::string write(const std::string& name, const std::string& contents) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << contents;
    return path(name);
  }

  void link(const std::string& target, const std::string& name) const {
    std::filesystem::create_symlink(target, path(name));
  }

 private:
  std::string root_;
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

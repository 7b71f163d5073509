// A temporary folder removed by its destructor, errors as text, and actions that need their
// own process.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/error.h"

namespace rondo {

class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rondo_test_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    root_ = pattern;
  }
  ~Scratch() { std::filesystem::remove_all(root_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return root_ / name; }
  const std::filesystem::path& root() const { return root_; }
  // The paths of the folder and of a file in it, as text.
  std::string path() const { return root_.string(); }
  std::string path(const std::string& name) const { return (root_ / name).string(); }

 private:
  std::filesystem::path root_;
};

inline std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

inline std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file, std::ios::binary);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline void write_text(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

// Returns "9: message" of the Error that `action` throws, or "no error".
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return fmt::format("{}: {}", static_cast<int>(error.code()), error.what());
  }
  return "no error";
}

// Runs `action` in a child process and returns its result. For actions that would change this
// process (limits, mounts, user ids).
inline std::string in_child(const std::function<std::string()>& action) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    try {
      text = action();
    } catch (const std::exception& error) {
      text = std::string("uncaught: ") + error.what();
    }
    const bool sent = write(fds[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(sent ? 0 : 1);
  }
  close(fds[1]);
  std::string text;
  char chunk[4096];
  for (ssize_t count; (count = read(fds[0], chunk, sizeof(chunk))) > 0;)
    text.append(chunk, static_cast<std::size_t>(count));
  close(fds[0]);
  waitpid(child, nullptr, 0);
  return text;
}

}  // namespace rondo

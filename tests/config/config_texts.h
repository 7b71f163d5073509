// Loads TOML texts for the tests of the configuration, and returns the message that a load ends
// with.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "config/load.h"
#include "support/error.h"

namespace rondo {

class TomlFile {
 public:
  explicit TomlFile(const std::string& text) {
    static int count = 0;
    path_ = (std::filesystem::temp_directory_path() /
             ("rondo_config_" + std::to_string(getpid()) + "_" + std::to_string(count++) + ".toml"))
                .string();
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TomlFile() { std::filesystem::remove(path_); }
  TomlFile(const TomlFile&) = delete;
  TomlFile& operator=(const TomlFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline JobConfig load_text(const std::string& text, std::vector<std::string> flags = {}) {
  const TomlFile file(text);
  flags.insert(flags.begin(), "--job.config_file=" + file.path());
  return load_config(flags);
}

// The message with the file's path replaced by "x.toml"; "" where the load succeeds.
inline std::string message_of(const std::string& text, std::vector<std::string> flags = {}) {
  const TomlFile file(text);
  flags.insert(flags.begin(), "--job.config_file=" + file.path());
  try {
    load_config(flags);
    return "";
  } catch (const Error& error) {
    std::string message = error.what();
    for (std::size_t at = 0; (at = message.find(file.path(), at)) != std::string::npos;)
      message.replace(at, file.path().size(), "x.toml");
    return error.code() == ExitCode::config ? message : "wrong exit code: " + message;
  }
}

}  // namespace rondo

// `rondo plan` as a process.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/rondo/run_program.h"

namespace rondo {

// Runs in a folder of its own, where data and tokenizer of the presets do not exist, and which must
// stay empty.
inline ProgramResult plan(const std::string& config, const std::string& words) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("rondo-plan-{}", getpid());
  std::filesystem::create_directories(folder);
  const std::string command = fmt::format("cd {} && {}/rondo plan {} {}", folder.string(), RONDO_BINARY_DIR,
                                          config.empty() ? "" : RONDO_SOURCE_DIR "/configs/" + config, words);
  ProgramResult result = run_program({"/bin/sh", "-c", command}, 120'000);
  CHECK(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
  return result;
}

inline nlohmann::json plan_json(const std::string& config, const std::string& words) {
  const ProgramResult result = plan(config, words + " --json");
  INFO(result.output);
  REQUIRE(result.exit_code == 0);
  return nlohmann::json::parse(result.output);
}

}  // namespace rondo

// What a run folder says of its run (docs/run_folder.md), for the commands that read it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "trainer/observe/metrics/step_metrics.h"

namespace rondo {

struct RunLog {
  std::filesystem::path folder;
  std::vector<StepMetrics> lines;             // at least one; `step` strictly rises
  std::map<std::string, std::string> config;  // "training.steps" -> "20" as TOML; empty without config.toml
};

// Errors: ExitCode::data, naming file and line, for what is missing or cannot be read.
RunLog read_run(const std::filesystem::path& folder);

}  // namespace rondo

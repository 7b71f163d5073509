// What a run folder says of its run (docs/run_folder.md), for the commands that read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runs/metrics/step_metrics.h"

namespace rondo {

struct RunLog {
  std::filesystem::path folder;
  std::vector<StepMetrics> lines;             // at least one; `step` strictly rises
  std::map<std::string, std::string> config;  // "training.steps" -> "20" as TOML; empty without config.toml
};

// A last line of metrics.jsonl without its newline: a kill left it, or the run is just writing it.
enum class CutLine { refused, left_out };

// Errors, here and below: ExitCode::data, naming file and line, for what is missing or cannot be read.
RunLog read_run(const std::filesystem::path& folder, CutLine cut_line = CutLine::refused);

// Its parts.
void require_run_folder(const std::filesystem::path& folder);
std::map<std::string, std::string> read_config(
    const std::filesystem::path& file);  // empty where there is none
// Adds what line `number` of the metrics.jsonl `file` says.
void append_step(const std::string& line, const std::filesystem::path& file, std::int64_t number,
                 std::vector<StepMetrics>* lines);

}  // namespace rondo

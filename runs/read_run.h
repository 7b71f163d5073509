// Reads a run folder (docs/run_folder.md), which another user may have written. Only regular files
// are read. Files other than the logs, and their lines, are bounded; names and texts are printable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runs/curves.h"
#include "runs/metrics/step_metrics.h"
#include "support/files/file_lines.h"

namespace rondo {

struct RunLog {
  std::filesystem::path folder;
  StepSeries steps;                           // at least one line
  std::map<std::string, std::string> config;  // "training.steps" -> "20" as TOML; empty without config.toml
};

// How to treat a last line of metrics.jsonl without a newline: a kill left it, or the run is
// writing it.
enum class CutLine { refused, left_out };

// Reads metrics.jsonl line by line.
class StepReader {
 public:
  StepReader(const std::filesystem::path& folder, CutLine cut_line);
  // Returns the next line, whose step is above that of the line before; nullopt at the end.
  std::optional<StepMetrics> next();

 private:
  const std::filesystem::path path_;
  const CutLine cut_line_;
  FileLines file_;
  std::int64_t number_ = 0, step_ = -1;  // of the last line
};

// Reads a run, in bounded memory. Functions of this header throw Error(data), naming file and line,
// for what is missing or cannot be read.
RunLog read_run(const std::filesystem::path& folder, CutLine cut_line = CutLine::refused);

// Returns the run folders of `paths`. Warns of each other path, which a pattern of the shell may
// have matched. Throws for the first of them if fewer than `least` run folders are left.
std::vector<std::filesystem::path> run_folders(const std::vector<std::string>& paths, std::size_t least);

// The parts of read_run.
void require_run_folder(const std::filesystem::path& folder);
std::map<std::string, std::string> read_config(const std::filesystem::path& file);  // empty without a file
// Parses line `number` of the metrics.jsonl `file`. `*step`: the step of the line before, or less
// than 0; becomes that of this line.
StepMetrics parse_step(std::string_view line, const std::filesystem::path& file, std::int64_t number,
                       std::int64_t* step);

}  // namespace rondo

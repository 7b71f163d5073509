// The folder of a run (`job.dump_folder`): what rank 0 leaves for people and for `rondo compare`.
//
//   config.toml    the resolved configuration; running it reproduces the run
//   env.json       machine, threads, versions, command line
//   metrics.jsonl  one object a step (step_metrics.h)
//   metrics.csv    the same as a table, with metrics.enable_csv (metrics_files.h)
//   expert_load.jsonl  of models with experts: one object every few steps (expert_load.h)
//   events.jsonl   one object an event: {"time": "2026-01-31T12:00:00.123Z", "event": NAME, fields...}
//   exit.json      how the run ended (ExitRecord); absent while it runs
//   graph/ tb/     the recorded graph as text; TensorBoard event files
//   profile_traces/ memory_snapshot/ comm_traces/  docs/profiling.md
//   rank_R/        what rank R has to say for itself, where it has
//   previous-N/    the files above of the N-th earlier run in this folder; runs are never mixed or
//   overwritten
//
// Only rank 0 makes a RunFolder; other ranks write below `rank_folder` alone. Not thread-safe.
// Errors are those of FileUse::run; a folder that another live process writes is ExitCode::environment.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/files/append_file.h"

namespace rondo {

// What only the caller knows of env.json; the rest is read from the machine.
struct RunFacts {
  std::vector<std::string> command_line;
  std::map<std::string, std::string> versions;  // {"rondo": "0.1.0", "torch": "2.11.0", "commit": ...}
  std::map<std::string, int> threads;           // {"intra_op": 1, "world_size": 2, ...}
};

struct ExitRecord {
  int exit_code = 0;
  std::optional<int> signal = std::nullopt;  // number of the signal that ended the process, if one did
  int rank = 0;
  std::string reason;       // one line: what, where, why, what to do
  std::string by = "rank";  // who wrote it: "rank" or "launcher"
};

class RunFolder {
 public:
  // Creates the folder, locks it for the life of this object, and moves an earlier run's files to
  // `previous-N/`.
  explicit RunFolder(std::filesystem::path folder);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path metrics_file() const { return folder_ / "metrics.jsonl"; }
  // Of a rank other than 0.
  static std::filesystem::path graph_folder_of(const std::filesystem::path& run_folder, int rank) {
    return run_folder / "graph" / ("rank_" + std::to_string(rank));
  }
  std::filesystem::path graph_folder() const { return folder_ / "graph"; }
  std::filesystem::path tensorboard_folder() const { return folder_ / "tb"; }
  // The folders of earlier runs, the latest first.
  std::vector<std::filesystem::path> earlier_runs() const;
  // Where an earlier run's files were moved, if there were any.
  const std::optional<std::filesystem::path>& previous() const { return previous_; }

  void write_config(std::string_view toml);
  void write_environment(const RunFacts& facts);
  // `fields` is an object; its keys follow "time" and "event".
  void event(std::string_view name, const nlohmann::ordered_json& fields);
  void event(std::string_view name);
  void write_exit(const ExitRecord& record);

 private:
  std::filesystem::path folder_;
  std::optional<std::filesystem::path> previous_;
  int lock_fd_ = -1;
  std::optional<AppendFile> events_;
};

// `FOLDER/exit.json`, also for the launcher when a rank could not write it.
void write_exit_record(const std::filesystem::path& folder, const ExitRecord& record);

// `FOLDER/rank_R`, created where missing. REQUIRES: rank 0 has made its RunFolder (a barrier), or it would
// move this aside with the earlier run's.
std::filesystem::path rank_folder(const std::filesystem::path& folder, int rank);

// Now, in UTC, as in events.jsonl.
std::string utc_timestamp();

}  // namespace rondo

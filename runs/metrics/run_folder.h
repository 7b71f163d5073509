// The folder of a run (`job.dump_folder`): what rank 0 leaves for people and for `rondo compare`.
//
//   config.toml    the resolved configuration; running it reproduces the run
//   env.json       machine, threads, versions, command line of the latest start
//   metrics.jsonl  one object a step (step_metrics.h)
//   metrics.csv    the same as a table, with metrics.enable_csv (metrics_files.h)
//   expert_load.jsonl  of models with experts: one object every few steps (expert_load.h)
//   events.jsonl   one object an event: {"time": "2026-01-31T12:00:00.123Z", "event": NAME, fields...}
//   exit.json      how the run ended (ExitRecord); absent while it runs
//   graph/ tb/     the recorded graph as text; TensorBoard event files
//   profile_traces/ memory_snapshot/ comm_traces/  docs/profiling.md
//   rank_R/        what rank R has to say for itself, where it has
//   *.superseded.jsonl, config.to_step_N.toml  what a resumed run replaced (step_lines.h, write_config)
//   previous-N/    the files above of the N-th earlier run in this folder that was not resumed
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
#include "support/files/atomic_file.h"
#include "support/files/folder_lock.h"

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
  std::string reason;  // one line: what, where, why, what to do
};

// What a run that resumes has behind it.
struct Resumed {
  std::int64_t steps = 0;
  std::string begun;  // RunFolder::begun() of the run that saved them; empty: the checkpoint does not say
};

class RunFolder {
 public:
  // Makes the folder where it is missing, and locks it for the life of this object. Touches nothing in it.
  explicit RunFolder(std::filesystem::path folder);
  ~RunFolder();  // a folder that it made and that no run has begun in goes away again
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // From here on the folder is this run's. The files of one that resumes go on, where they are or in the
  // `previous-N/` that they were moved to. Those of any other run move to such a folder.
  void begin(const std::optional<Resumed>& resumed);
  bool has_begun() const { return events_.has_value(); }
  // How the run before ended, as far as it left word; "" where there was none.
  const std::string& earlier_end() const { return earlier_end_; }
  // Where an earlier run's files were moved, if they were.
  const std::optional<std::filesystem::path>& previous() const { return previous_; }
  // Where the files of a run that resumes were meanwhile, if another run had begun in the folder.
  const std::optional<std::filesystem::path>& brought_back() const { return brought_back_; }
  // Which run it is, from its first start through all that resume it: what the event `start` says.
  const std::string& begun() const { return begun_; }

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path metrics_file() const { return folder_ / "metrics.jsonl"; }
  // Of a rank other than 0.
  static std::filesystem::path graph_folder_of(const std::filesystem::path& run_folder, int rank) {
    return run_folder / "graph" / ("rank_" + std::to_string(rank));
  }
  std::filesystem::path graph_folder() const { return folder_ / "graph"; }
  std::filesystem::path tensorboard_folder() const { return folder_ / "tb"; }

  // REQUIRES of all below: has_begun().
  // The configuration of the steps before, where it was another one, stays as config.to_step_N.toml.
  void write_config(std::string_view toml);
  void write_environment(const RunFacts& facts);
  // `fields` is an object; its keys follow "time" and "event".
  void event(std::string_view name, const nlohmann::ordered_json& fields);
  void event(std::string_view name);
  AppendFile& events() { return *events_; }
  void write_exit(const ExitRecord& record);

 private:
  std::filesystem::path folder_;
  bool made_ = false;  // by this object
  std::optional<FolderLock> lock_;
  std::optional<Resumed> resumed_;
  std::string earlier_end_, begun_;
  std::optional<std::filesystem::path> previous_, brought_back_;
  std::optional<AppendFile> events_;
  std::optional<AtomicFile> exit_;  // has its place on the disk, which may run full
};

// `FOLDER/rank_R`, created where missing. REQUIRES: rank 0's run has begun (a barrier), or it would move this
// aside with the earlier run's.
std::filesystem::path rank_folder(const std::filesystem::path& folder, int rank);

// Now, in UTC, as in events.jsonl.
std::string utc_timestamp();

}  // namespace rondo

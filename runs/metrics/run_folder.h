// The folder of a run (`job.dump_folder`), which rank 0 writes for users and for `rondo compare`.
//
//   config.toml    the resolved configuration; running it reproduces the run
//   env.json       machine, threads, versions, command line of the latest start
//   metrics.jsonl  one object per step (step_metrics.h)
//   metrics.csv    the same as a table, with metrics.enable_csv (metrics_files.h)
//   expert_load.jsonl  for models with experts: one object every few steps (expert_load.h)
//   events.jsonl   one object per event: {"time": "2026-01-31T12:00:00.123Z", "event": NAME,
//                  fields...}
//   console.log    the console lines of rank 0, of all starts; console.log.1: earlier ones
//                  (keep_log)
//   exit.json      how the run ended (ExitRecord); absent while it runs
//   graph/ tb/     the recorded graph as text; TensorBoard event files
//   profile_traces/ memory_snapshot/ comm_traces/  docs/profiling.md
//   rank_R.crash.txt  of a rank that crashed
//   *.superseded.jsonl, config.to_step_N.toml  what a resumed run replaced (step_lines.h,
//                  write_config)
//   previous-N/    the files above of the N-th earlier run in this folder that was not resumed
//
// Only rank 0 creates a RunFolder. Other ranks write only files with their number. Not thread-safe.
// Errors are those of FileUse::run. A folder that another live process writes is
// ExitCode::environment.
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

// The part of env.json that the caller provides; the rest is read from the machine.
struct RunFacts {
  std::vector<std::string> command_line;
  std::map<std::string, std::string> versions;  // {"rondo": "0.1.0", "torch": "2.11.0", "commit": ...}
  std::map<std::string, int> threads;           // {"intra_op": 1, "world_size": 2, ...}
};

struct ExitRecord {
  int exit_code = 0;
  std::optional<int> signal = std::nullopt;  // number of the signal that ended the process
  int rank = 0;
  std::string reason;  // one line: place, cause and next action
};

// The steps that a resumed run continues.
struct Resumed {
  std::int64_t steps = 0;
  std::string begun;  // RunFolder::begun() of the run that saved them; empty: not in the checkpoint
};

class RunFolder {
 public:
  // Creates the folder if it is missing, and locks it for the lifetime of this object. Changes
  // nothing in it.
  explicit RunFolder(std::filesystem::path folder);
  ~RunFolder();  // removes a folder that it created and in which no run has begun
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Makes the folder this run's. A resumed run continues its files, in the folder or in the
  // `previous-N/` that they were moved to. The files of any other run are moved to such a folder.
  void begin(const std::optional<Resumed>& resumed);
  bool has_begun() const { return events_.has_value(); }
  // Returns how the previous run in the folder ended; "" if there was none.
  const std::string& earlier_end() const { return earlier_end_; }
  // Returns when the start before this one of the same run ended, or wrote its last line; "" for
  // the first start.
  const std::string& ended_before() const { return ended_before_; }
  // Returns where an earlier run's files were moved.
  const std::optional<std::filesystem::path>& previous() const { return previous_; }
  // Returns where the files of the resumed run were, if another run had begun in the folder.
  const std::optional<std::filesystem::path>& brought_back() const { return brought_back_; }
  // Returns the identity of the run, as in the event `start`. It is the same for the first start
  // and all that resume it.
  const std::string& begun() const { return begun_; }

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path metrics_file() const { return folder_ / "metrics.jsonl"; }
  std::filesystem::path console_log() const { return folder_ / "console.log"; }
  // Returns the graph folder of a rank other than 0.
  static std::filesystem::path graph_folder_of(const std::filesystem::path& run_folder, int rank) {
    return run_folder / "graph" / ("rank_" + std::to_string(rank));
  }
  std::filesystem::path graph_folder() const { return folder_ / "graph"; }
  std::filesystem::path tensorboard_folder() const { return folder_ / "tb"; }

  // All functions below REQUIRE has_begun().
  //
  // Writes config.toml. A different configuration of earlier steps is kept as
  // config.to_step_N.toml.
  void write_config(std::string_view toml);
  void write_environment(const RunFacts& facts);
  // Appends an event. `fields` is an object; its keys follow "time" and "event".
  void event(std::string_view name, const nlohmann::ordered_json& fields);
  void event(std::string_view name);
  // Appends an event for each warning that this process has logged since the last call.
  void write_warnings();
  AppendFile& events() { return *events_; }
  void write_exit(const ExitRecord& record);

 private:
  std::filesystem::path folder_;
  bool created_ = false;  // whether this object created the folder
  std::optional<FolderLock> lock_;
  std::optional<Resumed> resumed_;
  std::string earlier_end_, ended_before_, begun_;
  std::optional<std::filesystem::path> previous_, brought_back_;
  std::optional<AppendFile> events_;
  std::optional<AtomicFile> exit_;  // with reserved disk space, as the disk may become full
};

}  // namespace rondo

// Determines why a job ended: finds the cause among several failures, describes it and records it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/rank_status.h"
#include "launch/rendezvous/messages.h"
#include "support/stopwatch.h"

namespace rondo::launch {

// A rank's report in $TORCHELASTIC_ERROR_FILE, in torchrun's format. At most 1 MiB is read.
struct ErrorFile {
  std::string message;  // first 2000 bytes
  double time_s = 0;    // since the epoch; 0 if the file has none
  int exit_code = 0;    // 0 if the file has none
};
std::optional<ErrorFile> read_error_file(const std::string& path);

// Returns whether `a` is more likely the cause than `b`. A failure with exit code 7 (lost peer) is
// likely a consequence, unless the rank is the hang's culprit. Otherwise the earlier failure is the
// cause.
bool is_likelier_cause(const Failure& a, const Failure& b,
                       const std::optional<HangCulprit>& hang_culprit = {});

// Returns "exit code 4 (data)" or "SIGKILL".
std::string cause_of(const Failure& failure);
// Returns several lines: rank, local rank, pid, cause, message and log. Rank -1 stands for a whole
// lost node.
std::string describe(const Failure& failure, int world_size, int nodes);

// Returns whether a restart can help. User errors, non-finite steps and graphs that cannot be built
// fail the same way again. 75 and 93 request an end.
bool may_restart(int code);
// Returns the exit code that all ranks share. Otherwise returns the first code other than 0 and, if
// possible, other than 7 (lost peer).
int common_code(const std::vector<int>& codes);

// Returns the run folder that rank 0 wrote to `file` as `run_folder=/abs/path`, or "".
std::string run_folder_in(const std::string& file);

// Writes {"exit_code","signal","rank","reason","attempt","ended_at","by"} to run_folder/exit.json.
// If rank 0 wrote that file after `attempt_began_s` with the same exit code, its file is kept,
// because it has more details. With a culprit, either file gets "culprit", the rank's status, and
// events.jsonl gets a line with it. Writes nothing if another run holds the folder's lock. Throws
// FileError.
void write_exit_json(const std::string& run_folder, const Failure& failure, int attempt,
                     double attempt_began_s, const std::optional<HangCulprit>& hang_culprit = {});

// Return seconds since the epoch. The first clock is set only at the start of the process, so that
// failures keep their order when the machine's clock is set. The second one stamps files.
double wall_time_s();
double file_time_now_s();

// Returns the last line of a file that is not blank, from its last 8 KiB, at most 400 bytes. "" if
// there is none.
std::string last_line_of(const std::string& path);

}  // namespace rondo::launch

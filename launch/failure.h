// Why a job ended: which of several deaths was the cause, what it is called, and what is written about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/rank_status.h"
#include "launch/rendezvous/messages.h"

namespace rondo::launch {

// What a rank wrote into $TORCHELASTIC_ERROR_FILE (torchrun's format, at most 1 MiB is read).
struct ErrorFile {
  std::string message;  // its first 2000 bytes
  double time_s = 0;    // since the epoch; 0 where the file has none
  int exit_code = 0;    // 0 where the file has none
};
std::optional<ErrorFile> read_error_file(const std::string& path);

// A death by another rank's fault (exit code 7) is likelier a consequence, but for the rank that held the
// others up; else the earlier one is the cause.
bool is_likelier_cause(const Failure& a, const Failure& b,
                       const std::optional<HangCulprit>& hang_culprit = {});

// "exit code 4 (data)", "SIGKILL"
std::string cause_of(const Failure& failure);
// Several lines: rank, local rank, pid, cause, its message and log. rank -1 stands for a whole node that was
// lost.
std::string describe(const Failure& failure, int world_size, int nodes);

// The user's mistakes, a step that is not finite and a graph that cannot be made fail the same way again; 75
// and 93 ask for an end.
bool may_restart(int code);
// The code all ranks agree on, else the first that is neither 0 nor (if there is another) 7, a lost peer.
int common_code(const std::vector<int>& codes);

// The run folder that rank 0 named in `file`, as `run_folder=/abs/path`; "": none.
std::string run_folder_in(const std::string& file);

// Writes {"exit_code","signal","rank","reason","attempt","ended_at","by"} to run_folder/exit.json, unless
// rank 0 wrote its own there since `attempt_began_s` with the same exit code: that one says more, and is
// kept. Either gets "culprit", the status of the rank that held the others up, and events.jsonl a line of
// it. Nothing where another run has the folder by now. Throws FileError.
void write_exit_json(const std::string& run_folder, const Failure& failure, int attempt,
                     double attempt_began_s, const std::optional<HangCulprit>& hang_culprit = {});

// Seconds since the epoch. The second clock is the one that files are stamped with.
double wall_time_s();
double file_time_now_s();

// The last line that is not blank of the last 8 KiB of a file, at most 400 bytes; "" where there is none.
std::string last_line_of(const std::string& path);

}  // namespace rondo::launch

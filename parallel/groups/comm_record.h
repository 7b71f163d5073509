// The flight recorder: the latest collectives and messages of this process. It names the collective
// behind a lost peer or a hang. The first collective that one rank waits for and the others never
// called is where their files differ first.
//
// Process-wide, like the crash report, and thread-safe. Off until `keep`. `keep` allocates all
// memory except for one copy of each text. New entries overwrite the oldest. An entry costs less
// than a microsecond. Steps come from progress.h, and each call is reported there. LibTorch's own
// record has the collectives over NCCL (gpu_records.h).
//
// The file is one JSON object:
//   rank, world_size
//   step        the step in progress, from 1
//   reason      why the file was written
//   under_way   the entry that the process waits for, or else the oldest that is not done; or null
//   entries     oldest first, each with
//     number        from 0, counted over the process
//     in_group      from 0, counted over the group: equal on all its ranks for the same collective
//     step, collective, group, dtype, input_elements, output_elements
//     op, module, phase   of the graph's node or the open scopes; empty between steps
//     state         "called", "waited_for" or "done"
//     called_at     UTC
//     called_s, waited_s   seconds from the call, and from the wait, to the end or to the dump
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rondo::comm_record {

// Clears the record and keeps the latest `entries` collectives. 0 turns it off.
void keep(std::size_t entries);
// Returns the bytes of a record of `entries`, without its texts.
std::size_t record_bytes(std::size_t entries);
std::size_t kept();

struct Call {
  std::string_view collective;  // "all_gather"; "send" or "receive" for a message
  std::string_view group;
  std::string_view dtype;
  std::int64_t input_elements = 0, output_elements = 0;
};
constexpr std::int64_t kNotRecorded = -1;
// Records a call that this thread is about to make. Module and phase come from its current work
// (crash_report.h) or its open scopes. Returns the entry's number, or kNotRecorded.
std::int64_t called(const Call& call);
void waited_for(std::int64_t number);
void done(std::int64_t number);

// Returns the seconds that this process has waited in completed collectives.
double waited_s();

bool is_empty();
// Describes the blocking entry: "all_gather of 512 Float in group dp for layers.0 (forward, step
// 12), waited for 5.0 s". Returns "" where no collective is in progress.
std::string under_way();
std::string to_json(int rank, int world_size, std::string_view reason);

}  // namespace rondo::comm_record

// The flight recorder: the latest collectives and messages of this process, so that a lost peer or a hang has
// a name. What a rank waits for and the others never called is the first difference between their files.
//
// Process-wide, like the crash report; any thread. Steps are those of progress.h, which is told of each call,
// too. Off until `keep`. All memory is taken by `keep`, but for a copy of each text. Entries
// overwrite the oldest; an entry costs less than a microsecond. Collectives over NCCL are in LibTorch's own
// record (gpu_records.h).
//
// The file, one JSON object:
//   rank, world_size, step   the step that was under way, from 1
//   reason                   why it was written
//   under_way                what the process waits for, or called first of what is not done; null: nothing
//   entries                  oldest first: number (from 0, of the process), in_group (from 0, of its group:
//   the same
//                            collective has the same number on all ranks of the group), step, collective,
//                            group, dtype, input_elements, output_elements, op, module, phase (of the graph's
//                            node, or the open scopes; empty between steps), state ("called", "waited_for",
//                            "done"), called_at (UTC), called_s and waited_s (from the call, and from the
//                            wait, to the end or to now)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rondo::comm_record {

// Keeps the latest `entries` collectives from here on; forgets what was recorded so far. 0: off.
void keep(std::size_t entries);
// What a record of `entries` takes, in bytes, without its texts.
std::size_t record_bytes(std::size_t entries);
std::size_t kept();

struct Call {
  std::string_view collective;  // "all_gather"; of a message "send" or "receive"
  std::string_view group;
  std::string_view dtype;
  std::int64_t input_elements = 0, output_elements = 0;
};
constexpr std::int64_t kNotRecorded = -1;
// About to be called by this thread, whose current work (crash_report.h) or open scopes say for whom.
std::int64_t called(const Call& call);
void waited_for(std::int64_t number);
void done(std::int64_t number);

// How long this process has waited in collectives that are done, since it started.
double waited_s();

bool is_empty();
// "all_gather of 512 Float in group dp for layers.0 (forward, step 12), waited for 5.0 s"; empty: nothing is.
std::string under_way();
std::string to_json(int rank, int world_size, std::string_view reason);

}  // namespace rondo::comm_record

// Work that may take longer than the timeout of a collective, such as reading a checkpoint. The
// ranks exchange flags every few milliseconds meanwhile. So a dead rank is noticed at once, and a
// slow one is waited for.
//
// All calls are collective. A rank that is busy for minutes logs a warning: "WHAT takes 60 s
// so far".
#pragma once

#include <functional>
#include <string>

#include "parallel/groups/groups.h"
#include "support/error.h"

namespace rondo {

// Blocks until `busy` is false on all ranks.
void wait_while(ProcessGroups& groups, const std::function<bool()>& busy, const std::string& what);

// Runs `work`, which must call no collective. Returns when all ranks are done, and then rethrows
// what `work` threw on this rank.
void do_on_all(ProcessGroups& groups, const std::function<void()>& work, const std::string& what);

// What a rank's work came to, for other ranks: a text, or the Error that it ended in.
struct RankOutcome {
  ExitCode code = ExitCode::ok;
  std::string text = "";  // of an Error its message

  bool ok() const { return code == ExitCode::ok; }
  const std::string& value() const;  // throws the Error

  // Its form between ranks: "CODE TEXT".
  std::string to_wire() const;
  static RankOutcome from_wire(const std::string& wire);
};

// The outcome of `work` on rank 0, on every rank. `key` as in ProcessGroups::broadcast_text.
RankOutcome do_on_first(ProcessGroups& groups, const std::function<std::string()>& work,
                        const std::string& key, const std::string& what);

}  // namespace rondo

// Work that may take longer than the timeout of a collective, such as reading a checkpoint. The
// ranks exchange flags every few milliseconds meanwhile. So a dead rank is noticed at once, and a
// slow one is waited for.
//
// All calls are collective. A rank that is busy for minutes logs a warning: "WHAT takes 60 s so
// far".
#pragma once

#include <functional>
#include <string>

#include "parallel/groups/groups.h"

namespace rondo {

// Blocks until `busy` is false on all ranks.
void wait_while(ProcessGroups& groups, const std::function<bool()>& busy, const std::string& what);

// Runs `work`, which must call no collective. Returns when all ranks are done, and then rethrows
// what `work` threw on this rank.
void do_on_all(ProcessGroups& groups, const std::function<void()>& work, const std::string& what);

// Runs `work` on rank 0 and returns its result on every rank. Where it throws an Error, every rank
// throws it. `key` is as in ProcessGroups::broadcast_text.
std::string do_on_first(ProcessGroups& groups, const std::function<std::string()>& work,
                        const std::string& key, const std::string& what);

}  // namespace rondo

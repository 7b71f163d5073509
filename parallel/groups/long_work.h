// Work that a rank may be at for longer than a collective waits for its peers, such as reading a checkpoint.
// The ranks ask each other every few milliseconds instead, so a rank that dies is noticed at once, and a slow
// one is waited for.
//
// All calls are collective. A rank that is busy for minutes warns of it: "WHAT takes 60 s so far".
#pragma once

#include <functional>
#include <string>

#include "parallel/groups/groups.h"

namespace rondo {

// Until `busy` is false on all ranks.
void wait_while(ProcessGroups& groups, const std::function<bool()>& busy, const std::string& what);

// Does `work`, which calls no collective, and returns when all ranks have done theirs; or throws then what
// `work` threw here.
void do_on_all(ProcessGroups& groups, const std::function<void()>& work, const std::string& what);

// What `work` returns on rank 0, on every rank; or throws there what it threw, where that is an Error. `key`
// as in ProcessGroups::broadcast_text.
std::string do_on_first(ProcessGroups& groups, const std::function<std::string()>& work,
                        const std::string& key, const std::string& what);

}  // namespace rondo

// Ranks as threads of this process that meet over Gloo.
#pragma once

#include <cstdint>
#include <functional>

#include "parallel/groups/ordered_gloo.h"
#include "parallel/mesh.h"

namespace rondo {

// Runs body(rank, member) on a thread for each rank, each with its own member of one group. They
// meet through `store`, or one of their own.
void on_gloo(int ranks, const std::function<void(int, OrderedGloo&)>& body,
             const c10::intrusive_ptr<c10d::Store>& store = {});

// The same where collectives find the group, which has another name on each thread.
void on_ranks(int ranks, const std::function<void(std::int64_t, const AxisGroup&)>& body);

}  // namespace rondo

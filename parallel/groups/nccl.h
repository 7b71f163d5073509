// Process groups over NCCL, between GPUs; parallel/groups/ordered_gloo.h has those between hosts.
// The build picks one of two implementations: cuda/nccl.cpp or without_cuda.cpp. Not thread-safe
// except for abort_nccl.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "launch/rendezvous/environment.h"

namespace rondo {

// The ranks of an NCCL group.
struct NcclMembers {
  std::string name;
  int rank = 0;  // of this process, as an index into `ranks`
  std::vector<std::int64_t> ranks;
};
// Throws Error(environment) where a lower rank of this node has taken the same GPU. Blocks until
// these ranks have called it too.
void refuse_shared_gpu(c10d::Store& store, const RankEnvironment& environment, c10::Device device);

// Connects at once, so that no recording contains the first collective of a communicator. `store`
// belongs to this group alone. `timeout` bounds the connection. Until setTimeout it also bounds
// each collective outside of recordings, from its enqueue. A late collective ends the group's
// connections, and failure_of_nccl reports it. Throws what c10d throws.
c10::intrusive_ptr<c10d::Backend> connect_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                               const NcclMembers& members, c10::Device device,
                                               std::chrono::milliseconds timeout);
// Returns what ended the group's connections, a late collective or a lost rank, or "".
std::string failure_of_nccl(c10d::Backend& backend);
// Aborts the group's connections without the other ranks. Waiting kernels end, and no call may
// follow. Returns when no recording has a collective of the group. Thread-safe. May hang in
// the driver.
void abort_nccl(c10d::Backend& backend);

// Sets the environment of NCCL and of its watchdog, before the first group. `recorded_groups` is
// the largest number of groups whose collectives one recording has; 0: nothing is recorded. Returns
// what is set for recordings, for the log: "NCCL_GRAPH_REGISTER=0, ...". Throws Error(environment)
// where the environment has a setting that is known to break groups or recordings.
std::string prepare_nccl(std::size_t recorded_groups);
// Returns the settings that all ranks must share, for a comparison: NCCL's version, and those of
// its variables that choose how ranks exchange data, as "NCCL_ALGO = Ring".
std::vector<std::string> nccl_settings();
// Returns what in the environment makes ranks slow, in words, for warnings.
std::vector<std::string> slow_settings();
// Notes that a recording was launched. The next collective outside of recordings, of a group that
// has recorded collectives, first waits for the device.
void note_launched_recording();

}  // namespace rondo

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
// Returns the line of `error` that reports a lack of memory, or "". NCCL allocates its own memory
// at connection and at the first collective of a kind. c10d reports a lack of it in the same way as
// a lost peer.
inline std::string lack_of_memory(const std::string& error) {
  for (const char* const mark : {"CUDA calloc", "CUDA malloc", "out of memory"})
    if (const std::size_t at = error.find(mark); at != std::string::npos) {
      const std::size_t newline = error.rfind('\n', at),
                        begin = newline == std::string::npos ? 0 : newline + 1;
      return error.substr(begin, error.find('\n', at) - begin);
    }
  return "";
}
// Returns what ended the group's connections, a late collective or a lost rank, or "".
std::string failure_of_nccl(c10d::Backend& backend);
// Aborts the group's connections without the other ranks. Waiting kernels end, and no call may
// follow. Returns when no recording has a collective of the group. Thread-safe. May hang in
// the driver.
void abort_nccl(c10d::Backend& backend);

// Sets the environment that makes NCCL safe with recordings, before the first group.
// `recorded_groups` is the largest number of groups whose collectives one recording has; 0: nothing
// is recorded. Returns what is set, for the log: "NCCL_GRAPH_REGISTER=0, ...". Throws
// Error(environment) where the environment has a setting that is known to break recordings.
std::string prepare_nccl(std::size_t recorded_groups);
// Notes that a recording was launched. The next collective outside of recordings, of a group that
// has recorded collectives, first waits for the device.
void note_launched_recording();

}  // namespace rondo

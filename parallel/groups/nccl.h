// What groups of ranks talk through between GPUs, beside parallel/groups/ordered_gloo.h between hosts. Two
// implementations, of which the build picks one: cuda/nccl.cpp and without_cuda.cpp. Not thread-safe but for
// abort_nccl.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "launch/rendezvous/environment.h"

namespace rondo {

// Some ranks that reduce and gather over NCCL.
struct NcclMembers {
  std::string name;
  int rank = 0;  // of this process, among `ranks`
  std::vector<std::int64_t> ranks;
};
// Throws Error(environment) where a rank before this one on its node has taken the same GPU. Waits for these
// ranks, which must call it too.
void refuse_shared_gpu(c10d::Store& store, const RankEnvironment& environment, c10::Device device);

// Connects at once, so that no recording meets a first collective. `store` is this group's alone. `timeout`:
// of meeting, and until it is set anew of each collective outside of recordings, from when the host asks for
// it; one that is late ends the group's connections, and failure_of_nccl tells. Throws what c10d throws.
c10::intrusive_ptr<c10d::Backend> connect_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                               const NcclMembers& members, c10::Device device,
                                               std::chrono::milliseconds timeout);
// NCCL takes memory of its own when groups connect and at the first collective of a kind, and c10d tells a
// lack of it as it tells a lost peer. The line of such an error that says so, or "".
inline std::string lack_of_memory(const std::string& error) {
  for (const char* const mark : {"CUDA calloc", "CUDA malloc", "out of memory"})
    if (const std::size_t at = error.find(mark); at != std::string::npos) {
      const std::size_t newline = error.rfind('\n', at),
                        begin = newline == std::string::npos ? 0 : newline + 1;
      return error.substr(begin, error.find('\n', at) - begin);
    }
  return "";
}
// Empty, or what ended the group's connections: a late collective, or a rank that is gone.
std::string failure_of_nccl(c10d::Backend& backend);
// Ends the group's connections without the other ranks: kernels that wait for them end, and nothing may
// follow. Returns when no recording has a collective of the group any more. Any thread. May itself hang in
// the driver.
void abort_nccl(c10d::Backend& backend);

// What makes recordings and NCCL safe together, set before the first group: "NCCL_GRAPH_REGISTER=0, ...", for
// the log. Throws Error(environment) where the environment asks for what is known to break them.
std::string prepare_nccl(bool records);

}  // namespace rondo

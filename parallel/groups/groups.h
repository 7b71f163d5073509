// This rank's store and process groups. They are created once, and functional collectives look them
// up by name. They must be destroyed before main returns.
//
// Rank 0 serves the store and listens only on the address of the launcher or MASTER_ADDR. With
// one rank there is no store and no group, and the collectives of parallel/collectives.h are
// never called. Not thread-safe: the collectives are called from one thread, in the same order on
// all ranks.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/rendezvous/environment.h"
#include "parallel/mesh.h"

namespace rondo {

// A process group as one of its ranks sees it.
struct GroupMembers {
  // The name that collectives use. Groups without this rank may have the same name if their first
  // rank differs.
  std::string name;
  std::vector<std::int64_t> ranks;  // in group order, which need not ascend
};

// The first rank with another hash than the first rank of its block of `block` neighbours (0: of
// all ranks).
struct Mismatch {
  int first, rank;
};
inline std::optional<Mismatch> first_mismatch(const std::vector<std::int64_t>& hashes, int block) {
  const int ranks = static_cast<int>(hashes.size());
  for (int rank = 0, first = 0; rank < ranks; ++rank) {
    if (block > 0 && rank % block == 0) first = rank;
    if (hashes[static_cast<std::size_t>(rank)] != hashes[static_cast<std::size_t>(first)])
      return Mismatch{first, rank};
  }
  return std::nullopt;
}

class ProcessGroups {
 public:
  // Connects to the other ranks and creates the group of all ranks, which the calls below use.
  // Collectives find it as `name_of_all`. GPU tensors use NCCL, host tensors Gloo. On a GPU, only
  // the group of all ranks has both. Throws Error(peer or environment) with what to try where ranks
  // do not arrive within `timeout`.
  ProcessGroups(const RankEnvironment& environment, const std::string& name_of_all,
                std::chrono::seconds timeout, c10::Device device = c10::kCPU);
  // REQUIRES: every executor that uses the groups is destroyed.
  ~ProcessGroups();
  ProcessGroups(const ProcessGroups&) = delete;
  ProcessGroups& operator=(const ProcessGroups&) = delete;

  // Creates further groups of this rank, each with its own connections. Blocks in each group until
  // its other ranks arrive. So every rank adds its groups, over all calls, in one global order:
  // groups of a mesh, then edges by sender, then by receiver. This order cannot deadlock: all ranks
  // have created every group before the first one that is missing. Throws as the constructor does.
  void add(const std::vector<GroupMembers>& groups);

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Sets the timeout of each later collective.
  void set_timeout(std::chrono::seconds timeout);
  // Throws Error(peer) where collectives between GPUs have failed since the groups were created.
  // Communicates nothing.
  void refuse_failed() const;
  // Returns a function that aborts all connections between GPUs without the other ranks.
  // Collectives that wait then return or fail. The function does not wait for the aborts, since
  // connections last as long as recordings that use them; the destructor waits. It is for a
  // teardown that hangs. Any thread may call it, during the destruction of the groups and after it.
  std::function<void()> collective_abort() const;
  void barrier();
  // Returns every rank's value, by rank. Uses host memory; for setup and checks, not for the step.
  std::vector<std::int64_t> all_gather(std::int64_t value);
  // Returns the elementwise maximum over all ranks. Takes a few microseconds a rank; made for once
  // a step.
  std::vector<std::int64_t> maximum(std::vector<std::int64_t> values);
  // The calls below go through the store. `key` must be unique per call and equal on all ranks.
  // Returns every rank's text on rank 0 and nothing on the others. Leaves nothing in the store.
  std::vector<std::string> gather_text(std::string_view key, const std::string& text);
  // Returns the text of rank `from` on every rank.
  std::string broadcast_text(std::string_view key, const std::string& text, int from = 0);
  // The first_mismatch by these texts, if there is one, and what it differs from: alike on all
  // ranks. Hashes are exchanged, and those two texts where they differ.
  struct OtherText : Mismatch {
    std::string text_of_first, text;
  };
  std::optional<OtherText> first_other_text(std::string_view key, const std::string& text, int block = 0);

 private:
  struct Connection;  // keeps c10d's headers out of this header
  int rank_;
  int size_;
  std::shared_ptr<Connection> connection_;  // shared with collective_abort while it runs
};

}  // namespace rondo

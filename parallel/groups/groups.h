// This rank's store and process groups: made once, found by name by the functional collectives, gone before
// main returns.
//
// The store's server runs on rank 0 and listens only where the launcher (or MASTER_ADDR) says. With one rank
// there is no store and no group, and the collectives of parallel/collectives.h are never called. Not
// thread-safe; the collectives are called from one thread, in the same order on all ranks.
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

// Some of the ranks, as one of them sees it.
struct GroupMembers {
  // Collectives find it by this. Other groups may have the same, but none of this rank, and none with the
  // same first rank.
  std::string name;
  std::vector<std::int64_t> ranks;  // in the order that they have in the group, which need not ascend
};

// The first rank with another hash than the first rank of its block of `block` neighbours (0: of all ranks).
struct OddRank {
  int first, rank;
};
inline std::optional<OddRank> first_odd_rank(const std::vector<std::int64_t>& hashes, int block) {
  const int ranks = static_cast<int>(hashes.size());
  for (int rank = 0, first = 0; rank < ranks; ++rank) {
    if (block > 0 && rank % block == 0) first = rank;
    if (hashes[static_cast<std::size_t>(rank)] != hashes[static_cast<std::size_t>(first)])
      return OddRank{first, rank};
  }
  return std::nullopt;
}

class ProcessGroups {
 public:
  // Meets the other ranks: the group of all of them, which the calls below use too, and collectives by
  // `name_of_all`. Tensors on a GPU go through NCCL, those of the host through Gloo; on a GPU only the group
  // of all ranks has both. Throws Error(peer or environment) with what to try when they do not come within
  // `timeout`.
  ProcessGroups(const RankEnvironment& environment, const std::string& name_of_all,
                std::chrono::seconds timeout, c10::Device device = c10::kCPU);
  // Lets go of the groups. REQUIRES: every executor that uses them is gone.
  ~ProcessGroups();
  ProcessGroups(const ProcessGroups&) = delete;
  ProcessGroups& operator=(const ProcessGroups&) = delete;

  // Makes further groups of this rank, each with connections of its own. A rank waits in each for the group's
  // other ranks, so every rank adds the groups that it is in, over all calls, in one order of all groups
  // (those of a mesh, then edges by from, then to). Then no circle can close: of the first group that is not
  // made, every rank has made all that comes before it. Throws as the constructor does.
  void add(const std::vector<GroupMembers>& groups);

  int rank() const { return rank_; }
  int size() const { return size_; }

  // How long a collective may wait for a peer from now on.
  void set_timeout(std::chrono::seconds timeout);
  // Throws Error(peer) where collectives between GPUs failed since the groups were made. Costs no exchange.
  void refuse_failed() const;
  // Begins to end all connections between GPUs without the other ranks: what waits in a collective goes on,
  // or fails. Does not wait, since connections last as long as recordings that use them; the destructor does.
  // For teardown that hangs: any thread may call it, while the groups are destroyed and after that, too.
  std::function<void()> ending_of_collectives() const;
  void barrier();
  // Every rank's value, by rank. Host data; for set-up and checks, not for the step.
  std::vector<std::int64_t> all_gather(std::int64_t value);
  // The largest of all ranks' values, place by place. A few microseconds a rank; made for once a step.
  std::vector<std::int64_t> maximum(std::vector<std::int64_t> values);
  // Through the store. `key` must be new for each call and equal on all ranks.
  // Every rank's text on rank 0, nothing elsewhere. Leaves nothing in the store.
  std::vector<std::string> gather_text(std::string_view key, const std::string& text);
  // Rank `from`'s text on every rank.
  std::string broadcast_text(std::string_view key, const std::string& text, int from = 0);
  // The first_odd_rank by these texts, if there is one, and what it differs from: alike on all ranks. Hashes
  // are exchanged, and those two texts where they differ.
  struct OtherText : OddRank {
    std::string text_of_first, text;
  };
  std::optional<OtherText> first_other_text(std::string_view key, const std::string& text, int block = 0);

 private:
  struct Connection;  // keeps c10d's headers out of this one
  int rank_;
  int size_;
  std::shared_ptr<Connection> connection_;  // shared with ending_of_collectives while that works
};

}  // namespace rondo

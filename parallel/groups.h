// This rank's store and process groups: made once, found by name by the functional collectives, gone before
// main returns.
//
// The store's server runs on rank 0 and listens only where the launcher (or MASTER_ADDR) says. With one rank
// there is no store and no group, and the collectives of parallel/collectives.h are never called. Not
// thread-safe; the collectives are called from one thread, in the same order on all ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/launch/environment.h"

namespace rondo {

// Name of the group of all data-parallel ranks.
inline const std::string kDataParallelGroup = "dp";
// What a second group of the same ranks is called beside the first, for gathers beside reductions.
inline const std::string kGatherGroupSuffix = "_gather";

class ProcessGroups {
 public:
  // Meets the other ranks; throws Error(peer or environment) with what to try when they do not come within
  // `timeout`. With `gather_group` there is a group of its own for gathers, with connections and threads of its own.
  ProcessGroups(const RankEnvironment& environment, std::chrono::seconds timeout, bool gather_group = false);
  // Lets go of the groups. REQUIRES: every executor that uses them is gone.
  ~ProcessGroups();
  ProcessGroups(const ProcessGroups&) = delete;
  ProcessGroups& operator=(const ProcessGroups&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // How long a collective may wait for a peer from now on.
  void set_timeout(std::chrono::seconds timeout);
  void barrier();
  // Every rank's value, by rank. Host data; for set-up and checks, not for the step.
  std::vector<std::int64_t> all_gather(std::int64_t value);
  // The largest of all ranks' values, place by place. A few microseconds a rank; made for once a step.
  std::vector<std::int64_t> maximum(std::vector<std::int64_t> values);
  // Through the store. `key` must be new for each call and equal on all ranks.
  std::vector<std::string> all_gather_text(std::string_view key, const std::string& text);  // by rank
  // Every rank's text on rank 0, nothing elsewhere. Leaves nothing in the store.
  std::vector<std::string> gather_text(std::string_view key, const std::string& text);
  // Rank 0's text on every rank.
  std::string broadcast_text(std::string_view key, const std::string& text);

 private:
  struct Connection;  // keeps c10d's headers out of this one
  int rank_;
  int size_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace rondo

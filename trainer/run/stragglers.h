// Finds a rank that is slower than the others. It delays all of them, and no number of a step shows
// which one it is. In collectives ranks wait for the last one, so the last one waits least.
//
// Reads the waits of comm_record.h, so it sees no NCCL collectives, and nothing where
// comm.trace_buf_size is 0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/groups/groups.h"
#include "support/stopwatch.h"

namespace rondo {

struct Straggler {
  std::int64_t rank = 0;
  double seconds = 0;  // by which every other rank waited longer
};
// Returns the straggler among ranks that waited `waited_s` in `elapsed_s` seconds; nullopt where it
// costs the others less than a fifth of that time.
std::optional<Straggler> find_straggler(const std::vector<double>& waited_s, double elapsed_s);

class Stragglers {
 public:
  // Adds a wait for other ranks outside of a step's collectives.
  void waited(double seconds) { between_steps_s_ += seconds; }
  // Collective, after the same step; exchanges one number per rank. Rank 0 warns of the rank that
  // delayed the others since the last call, once as long as it is the same rank.
  void look(ProcessGroups& groups, std::int64_t step);

 private:
  std::optional<Stopwatch> time_;  // since the last call; nullopt before the first
  std::int64_t since_step_ = 0;
  double between_steps_s_ = 0;
  double waited_s_ = 0;  // until then
  std::optional<std::int64_t> told_;
};

}  // namespace rondo

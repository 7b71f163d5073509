// Finds a rank that is slower than the others and delays them; no number of a step shows which one
// it is. In collectives ranks wait for the last one, so the last one waits least.
//
// Reads the waits of comm_record.h. NCCL collectives are not included, and with
// comm.trace_buf_size = 0 nothing is.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/groups/groups.h"
#include "support/stopwatch.h"

namespace rondo {

struct Straggler {
  std::int64_t rank = 0;
  double seconds = 0;  // every other rank waited at least this much longer
};
// Returns the straggler among ranks that waited `waited_s` in `elapsed_s` seconds; nullopt if it
// costs the others less than a fifth of that time.
std::optional<Straggler> find_straggler(const std::vector<double>& waited_s, double elapsed_s);

class Stragglers {
 public:
  // Adds a wait for other ranks outside of a step's collectives.
  void waited(double seconds) { between_steps_s_ += seconds; }
  // Exchanges one number per rank. Rank 0 warns of the rank that delayed the others since the last
  // call, once as long as it is the same rank. Collective, after the same step on all ranks.
  void look(ProcessGroups& groups, std::int64_t step);

 private:
  std::optional<Stopwatch> time_;  // since the last call; nullopt before the first
  std::int64_t since_step_ = 0;
  double between_steps_s_ = 0;
  double waited_s_ = 0;                   // until the last call
  std::optional<std::int64_t> reported_;  // rank
};

}  // namespace rondo

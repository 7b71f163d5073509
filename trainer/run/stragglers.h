// A rank that is slower than the others holds all of them up, and no number of a step says so: it ends for
// all at once. In collectives ranks wait for the last one, so that the last one waits least.
//
// Knows the collectives of comm_record.h, so none over NCCL, and none where comm.trace_buf_size is 0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/groups/groups.h"
#include "support/stopwatch.h"

namespace rondo {

struct Straggler {
  std::int64_t rank = 0;
  double seconds = 0;  // that every other rank waited longer than it
};
// Of the ranks that waited so long in `elapsed_s` seconds. nullopt: what one holds the others up is less than
// a fifth of that.
std::optional<Straggler> find_straggler(const std::vector<double>& waited_s, double elapsed_s);

class Stragglers {
 public:
  // For the others, elsewhere than in collectives of a step.
  void waited(double seconds) { between_steps_s_ += seconds; }
  // All ranks call it after the same step, and exchange a number each. Rank 0 warns of the rank that has held
  // the others up since the last call, once as long as it is the same one.
  void look(ProcessGroups& groups, std::int64_t step);

 private:
  std::optional<Stopwatch> time_;  // since the last call; nullopt before the first
  std::int64_t since_step_ = 0;
  double between_steps_s_ = 0;
  double waited_s_ = 0;  // until then
  std::optional<std::int64_t> told_;
};

}  // namespace rondo

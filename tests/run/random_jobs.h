// Draws random jobs: models as small as one of each dimension that ranks divide, layouts, schedules
// and settings. A seed gives the same job on every machine.
#pragma once

#include <cstdint>
#include <string>

#include "tests/run/runs.h"

namespace rondo {

struct RandomJob {
  std::string config;  // the file of a debug model
  Words flags;         // of `rondo train`
  Words graph_flags;   // more flags, for executors of a graph
  int ranks = 1;
  bool rounds = false;       // an eager run has different bits
  bool is_eager = false;     // without a graph
  std::string text() const;  // the job as a command
};

// Draws a job of at most `most_ranks` ranks. Rules between its keys may refuse it.
RandomJob random_job(std::uint64_t seed, int most_ranks);

// Requires that `config check` and `plan` agree about a job. Returns why they refuse it; "" if it
// is valid.
std::string check_agrees_with_plan(const RandomJob& job);

// Trains two steps of a job that `config check` accepts, in eager, interpreter and replay, and
// requires the same bits.
void check_bits(const Place& place, const RandomJob& job);

}  // namespace rondo

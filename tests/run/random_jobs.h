// Random jobs: models down to one of everything that ranks divide, layouts, schedules and ways to train. A
// seed gives the same job on every machine.
#pragma once

#include <cstdint>
#include <string>

#include "tests/run/runs.h"

namespace rondo {

struct RandomJob {
  std::string config;  // the file, of the smallest of a kind of model
  Words flags;         // of `rondo train`
  int ranks = 1;
  bool rounds = false;       // an eager run has other bits
  bool is_eager = false;     // has no graph
  std::string text() const;  // a command that can be typed
};

// Draws a job of at most `most_ranks` ranks. Rules between its keys may refuse it.
RandomJob random_job(std::uint64_t seed, int most_ranks);

// Requires that `config check` and `plan` say the same of a job. Returns why they refuse it; "": it is valid.
std::string check_agrees_with_plan(const RandomJob& job);

// Trains two steps of a job that `config check` calls valid, in eager, interpreter and replay, and requires
// that they have the same bits.
void check_bits(const Place& place, const RandomJob& job);

}  // namespace rondo

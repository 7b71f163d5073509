// The way around a circle of ranks that wait for each other, as text for an error.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "parallel/pipeline/check.h"

namespace rondo::pipeline {

inline constexpr const char* kDeadlock =
    "deadlock: ranks wait for each other in a circle; order the actions so that what is read is made before";

// A rank stands at its action `at`, until another one has run `needs`.
struct Wait {
  std::size_t at, rank;  // that other rank
  std::function<bool(const Action&)> needs;
};

// A new line for each rank of a circle. `wait_of(rank)` is asked of ranks that stand still, of which `start`
// is one; each must wait for one that stands still, too.
inline std::string circle_of(const Program& program, std::size_t start,
                             const std::function<Wait(std::size_t)>& wait_of) {
  std::vector<bool> seen(program.ranks.size());
  std::size_t rank = start;
  for (; !seen[rank]; rank = wait_of(rank).rank) seen[rank] = true;
  std::string text;
  const std::size_t first = rank;
  do {
    const Wait wait = wait_of(rank);
    const std::vector<Action>& others = program.ranks[wait.rank];
    const auto needed = std::find_if(others.begin(), others.end(), wait.needs) - others.begin();
    text += fmt::format("\n  {} waits for {}", place_of(program, rank, wait.at),
                        place_of(program, wait.rank, needed));
    rank = wait.rank;
  } while (rank != first);
  return text;
}

}  // namespace rondo::pipeline

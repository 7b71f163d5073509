// Prints the cycle of ranks that wait for each other, for an error message.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "parallel/pipeline/check.h"

namespace rondo::pipeline {

inline constexpr const char* kDeadlock =
    "deadlock: ranks wait for each other in a cycle; order the actions so that each comes after its input";

// A rank that is blocked at its action `at` until another rank has run the action `needs`.
struct Wait {
  std::size_t at, rank;  // `rank` is the other rank
  std::function<bool(const Action&)> needs;
};

// Returns one line for each rank of the cycle that is reached from `start`, each after a newline.
// `wait_of(rank)` is called for blocked ranks only. Each must wait for a blocked rank.
inline std::string cycle_of(const Program& program, std::size_t start,
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

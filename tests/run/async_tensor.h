// Compares runs whose collectives of activations run in pieces with runs whose collectives are
// whole.
#pragma once

#include "tests/run/ladder.h"

namespace rondo {

struct PieceRun {
  int ranks, tensor, pieces;
  std::string dtype, policy;
  Words flags() const {
    return {fmt::format("--parallelism.tensor_parallel_degree={}", tensor),
            "--training.mixed_precision_param=" + dtype, "--compile.memory_policy=" + policy,
            "--model.n_kv_heads=4", "--training.steps=3"};
  }
};

// Checks that the eager step, and the interpreted and the replayed graph in pieces, have the same
// bits, and that the log of the compilation holds `note`. `more` are flags of all runs.
inline void check_pieces(const Place& place, const PieceRun& run, const std::string& note,
                         const Words& more = {}) {
  const Words flags = run.flags() + more;
  const Words pieces = flags + Words{"--parallelism.enable_async_tensor_parallel=true",
                                     fmt::format("--compile.tensor_parallel_pieces={}", run.pieces),
                                     "--metrics.verbosity=detailed"};
  INFO(fmt::format("{}", fmt::join(pieces, " ")));
  place.play(run.ranks, "whole", flags);
  const ProgramResult replayed = place.play(run.ranks, "pieces", pieces);
  place.play(run.ranks, "interpreted", pieces + kInterpreter);
  CHECK_THAT(replayed.output, Catch::Matchers::ContainsSubstring(note));
  check_equal(place, "whole", "pieces", 3);
  check_equal(place, "pieces", "interpreted", 3);
}

}  // namespace rondo

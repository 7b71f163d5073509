// Formats proofs as a table, whose lines can be printed one by one, and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "prove/prover.h"

namespace rondo {

// Returns "small model: n_layers 4, n_heads 24, ...; --layout ...,model.n_layers=4 changes a size":
// the sizes that ranks divide.
std::string proof_sizes(const JobConfig& proof_job);
std::string proof_header(const std::vector<ProofCase>& cases);
// Returns one line, and one more for each finding. REQUIRES: the proof of one of the cases of
// the header.
std::string proof_line(const std::vector<ProofCase>& cases, const Proof& proof);
// Returns "312 of 312 layouts equal one rank", the largest differences, and the time.
std::string proof_summary(const std::vector<Proof>& proofs, double seconds);
// Returns {"holds": true, "layouts": [{"layout", "ranks", "holds", "loss", ...}, ...]}.
std::string proof_json(const std::vector<Proof>& proofs);

}  // namespace rondo

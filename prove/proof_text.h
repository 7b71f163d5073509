// Proofs as a table for people, a line as soon as there is one, and as JSON for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "prove/prover.h"

namespace rondo {

// "small model: n_heads 24, n_kv_heads 24, ...; --layout ...,model.n_heads=8 takes others": what is divided
// among ranks.
std::string proof_sizes(const JobConfig& proof_job);
std::string proof_header(const std::vector<ProofCase>& cases);
// One line, and one more for each finding. REQUIRES: of one of the cases of the header.
std::string proof_line(const std::vector<ProofCase>& cases, const Proof& proof);
// "312 of 312 layouts equal one rank", the largest differences, and the time.
std::string proof_summary(const std::vector<Proof>& proofs, double seconds);
// {"holds": true, "layouts": [{"layout", "ranks", "holds", "loss", ...}, ...]}
std::string proof_json(const std::vector<Proof>& proofs);

}  // namespace rondo

// The job that a proof plays instead of one that takes a cluster: the same parts, settings and optimizer, in
// sizes of a second. No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

inline constexpr std::int64_t kProofSteps = 3;

// `job` with a small model (ModelSpec::small), in float64 and without float8, on the CPU; three steps of
// short sequences, whose gradients are all clipped, and whose numbers are saved after the first step and the
// last. What overflows experts is repeated.
JobConfig proof_job(const JobConfig& job);

// Writes the corpus of the job and its configuration into `folder`. Returns the path of the latter.
std::filesystem::path write_proof_job(const JobConfig& proof_job, const std::filesystem::path& folder);

}  // namespace rondo

// Derives the job that a proof runs in place of a large one: the same parts, settings and
// optimizer, in sizes that take a second. No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

inline constexpr std::int64_t kProofSteps = 3;

// Returns `job` with a small model (ModelSpec::small), in float64 and without float8, on the CPU.
// It has three steps of short sequences, whose gradients are all clipped. State is saved after the
// first step and the last. Steps that overflow experts are repeated.
JobConfig proof_job(const JobConfig& job);

// Writes the corpus of the job and its configuration to `folder`. Returns the path of
// the configuration.
std::filesystem::path write_proof_job(const JobConfig& proof_job, const std::filesystem::path& folder);

}  // namespace rondo

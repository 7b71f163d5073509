// What a layout that somebody names leaves open, so that the small model of a proof can be trained in it. No
// LibTorch.
#pragma once

#include "config/schema/job_config.h"
#include "prove/proof_layout.h"

namespace rondo {

// Gives the pipelines of `proof` what their schedules ask for and nobody named: microbatches, layers of the
// small model, and room for all rows of experts, since a pipeline cannot repeat a step. What does not help
// stays as it is.
void make_playable(const JobConfig& job, ProofCase& proof);

}  // namespace rondo

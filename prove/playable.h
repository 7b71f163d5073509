// Completes a layout that a user names, so that the small model of a proof can be trained with it.
// No LibTorch.
#pragma once

#include "config/schema/job_config.h"
#include "prove/proof_layout.h"

namespace rondo {

// Sets what the schedules of the pipelines of `proof` require and the user has not set:
// microbatches, layers of the small model, and room for all rows of experts, since a pipeline
// cannot repeat a step. Leaves settings unchanged if no value satisfies the rules.
void make_playable(const JobConfig& job, ProofCase& proof);

}  // namespace rondo

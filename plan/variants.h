// Ways to run a job, as configurations: the choices of the search for one that fits (remedies.h).
// Each kind of choice is a function, so that another axis of the mesh is another function. Pure
// functions without LibTorch. A variant that breaks a rule is omitted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

struct Variant {
  JobConfig config;
  std::int64_t world = 1;
};

// Returns the flags that turn `job` into `variant`, in the order of the sections, with "--world N"
// last if the ranks differ.
std::vector<std::string> flags_between(const Variant& job, const Variant& variant);

// Returns layouts over `world` ranks, the job's own first. Replicas stay or become one. Tensor
// parallelism is 1 to `most_tensor_parallel`. With experts, expert parallelism is up to four times
// the job's.
std::vector<Variant> layouts(const Variant& job, std::int64_t world, std::int64_t most_tensor_parallel);

// Returns the loss in chunks first, which takes less memory, then the job's own.
std::vector<Variant> losses(const Variant& job);

// Returns pipeline schedules, the job's own first. Each has 1, 2, 4 or 8 stages a rank, as far as
// it supports that and the layers divide evenly. Returns only the job if it has no pipeline or a
// schedule from a file.
std::vector<Variant> pipelines(const Variant& job);

// Switches parallelism.fsdp_gradient_sync. "microbatch" takes less memory, since "step" keeps whole
// gradients until the end of the step; "step" sends less.
Variant with_other_gradient_sync(Variant job);

// Sets the layout of layers, in Megatron's format.
Variant with_layout(Variant job, const std::string& layout);
// Limits the microbatches of a stage between I and W to `most`.
Variant with_pending(Variant job, std::int64_t most);
// Returns a pipeline's microbatches of half and twice the size, if a step divides into them.
std::vector<Variant> microbatch_sizes(const Variant& job);

// Returns memory policies. Each of the first kOrderedPolicies saves more for the backward than the
// one before. Offloading follows, and the job's own if it is another one.
std::vector<Variant> memory_policies(const Variant& job);
inline constexpr std::size_t kOrderedPolicies = 4;

// Returns numbers of sequences that a rank takes at a time, largest first; of a pipeline its
// microbatch sizes, up to the job's. `sequences` > 0 keeps the sequences of a step and divides them
// into microbatches; the result is empty if the layout cannot divide them. With 0, a step has one
// microbatch of at most the job's local batch.
std::vector<Variant> local_batches(const Variant& job, std::int64_t sequences);

// Returns the job with `layers` layers. Budgets in bytes are scaled with them.
Variant with_layers(const Variant& job, std::int64_t layers);
std::int64_t layer_count(const JobConfig& config);
// Returns the minimum number of layers that the model's rules allow.
std::int64_t fewest_layers(const JobConfig& config);

}  // namespace rondo

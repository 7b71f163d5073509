// Ways to run a job, as configurations: what the search for one that fits (remedies.h) chooses from. Each
// kind of choice is a function of its own, so that another axis of the mesh is another function. No LibTorch,
// pure functions. A variant that breaks a rule is not made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/derived.h"
#include "config/schema/job_config.h"

namespace rondo {

struct Variant {
  JobConfig config;
  std::int64_t world = 1;
};

// What to type to get `variant` instead of `job`, a flag each, in the order of the sections; "--world N" last
// where the ranks differ.
std::vector<std::string> flags_between(const Variant& job, const Variant& variant);

// Layouts over `world` ranks, the job's own first: replicas as they are or one; ranks that share the layers,
// 1 to `most_tensor_parallel`; of a model with experts, ranks that share them, up to four times the job's.
std::vector<Variant> layouts(const Variant& job, std::int64_t world, std::int64_t most_tensor_parallel);

// With the loss in chunks first, which takes less memory, then as the job has it.
std::vector<Variant> losses(const Variant& job);

// Schedules of a pipeline, each with 1, 2, 4 or 8 stages a rank as far as it takes so many and the layers can
// be divided evenly; the job's own first. The job alone where it has no pipeline, or a schedule of a file.
std::vector<Variant> pipelines(const Variant& job);

// The other value of parallelism.fsdp_gradient_sync: gradients that are reduced once a step are whole until
// then, so "microbatch" takes less memory, and "step" sends less.
Variant with_other_gradient_sync(Variant job);

// With its layers divided so, as Megatron writes it; and with at most so many microbatches of a stage between
// I and W.
Variant with_layout(Variant job, const std::string& layout);
Variant with_pending(Variant job, std::int64_t most);
// A pipeline's microbatches of half and of twice the size, where a step can be made of them.
std::vector<Variant> microbatch_sizes(const Variant& job);

// Policies in an order in which each keeps more for the backward than the one before, but for the last ones:
// offloading, and the job's own where it is none of these.
std::vector<Variant> memory_policies(const Variant& job);
// How many at the front of that list keep more and more.
inline constexpr std::size_t kOrderedPolicies = 4;

// How many sequences a rank takes at a time, the most first; of a pipeline its microbatches, up to the job's.
// `sequences` above 0: of a step, which stay,
// divided into microbatches; empty where the layout cannot divide them. 0: a step has one microbatch, of at
// most the job's local batch.
std::vector<Variant> local_batches(const Variant& job, std::int64_t sequences);

// The same with so many layers; policies with a budget in bytes get their share of it.
Variant with_layers(const Variant& job, std::int64_t layers);
std::int64_t layer_count(const JobConfig& config);
// The least number that the model's rules take.
std::int64_t fewest_layers(const JobConfig& config);

}  // namespace rondo

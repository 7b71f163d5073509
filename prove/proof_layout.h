// Layouts as a proof knows them, and which of them there are. No LibTorch.
//
// As text, which `rondo prove --layout` takes and prints:
//
//   dp_replicate=2,dp_shard=2,cp=2,tp=2,ep=4,accumulate=2,compile.memory_policy=full
//   dp_shard=2,tp=2,ep=2,etp=2
//   pp=2,dp_shard=2,accumulate=4,parallelism.pipeline_parallel_schedule=ZBVZeroBubble
//
// Axes with one rank are left out; `one rank` is the layout that has no other. accumulate: microbatches of a
// step, of a pipeline too. What has a dot is a key of the configuration, and a word
// behind it one more of its list. `A/B` saves after two of three steps in layout A and
// resumes in B.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/derived.h"
#include "config/schema/job_config.h"

namespace rondo {

struct ProofLayout {
  std::int64_t replicate = 1, shard = 1, context = 1, tensor = 1, experts = 1, expert_tensor = 1,
               microbatches = 1, pipeline = 1;
  std::vector<std::string> settings = {};  // "compile.memory_policy=full"

  std::int64_t data() const { return replicate * shard; }
  std::int64_t ranks() const { return pipeline * data() * context * tensor; }
  // Of a replica, those that experts are divided among.
  std::int64_t expert_ranks() const { return shard * context * tensor / expert_tensor; }
  std::string text() const;
  // Of `rondo train`, for a step of so many sequences.
  std::vector<std::string> flags(std::int64_t global_batch) const;
};

// What is played: one layout, or two of which the second resumes what the first has saved.
struct ProofCase {
  std::vector<ProofLayout> layouts = {{}};

  std::string text() const;
  std::int64_t ranks() const;         // the most of any of them
  std::int64_t global_batch() const;  // sequences of a step: 24, or as many as its layouts divide
  // The settings that one rank has to have, too: those that are not of a layout or a compiler.
  std::vector<std::string> common_settings() const;
};

// Returns the rule that the text breaks, or "".
std::string read_case(const std::string& text, ProofCase& read);

// Whether ranks can share the sizes of the model like this, each having a whole number of them, and layers
// can be divided among the stages of its pipeline.
bool has_layout(const JobConfig& job, const ProofLayout& layout);

// All degrees of up to `most_ranks` ranks, where experts are divided with each of the exchanges.
std::vector<ProofCase> all_layouts(const JobConfig& job, std::int64_t most_ranks);
// The same, and each way to train that must not change the numbers with some of them: accumulation, document
// attention, memory policies, bucketing, fused ops, chunked loss, resharding, gradients reduced once a step,
// room for experts, executors; and a layout that resumes another one.
std::vector<ProofCase> all_cases(const JobConfig& job, std::int64_t most_ranks);
// `count` random combinations of all these, the same for the same seed.
std::vector<ProofCase> random_cases(const JobConfig& job, std::int64_t most_ranks, std::int64_t count,
                                    std::uint64_t seed);
// The axes of a job with degrees of 2, or 3 where 2 does not divide them, and accumulation in 2.
ProofLayout shrunk_layout(const Layout& layout);

}  // namespace rondo

// The layouts of proofs, and the lists of layouts that proofs run. No LibTorch.
//
// A layout as text, which `rondo prove --layout` accepts and prints:
//
//   dp_replicate=2,dp_shard=2,cp=2,tp=2,ep=4,accumulate=2,compile.memory_policy=full
//   dp_shard=2,tp=2,ep=2,etp=2
//   pp=2,dp_shard=2,accumulate=4,parallelism.pipeline_parallel_schedule=ZBVZeroBubble
//
// Axes with one rank are left out; the layout without axes is `one rank`. accumulate: microbatches
// of a step, also with a pipeline. A name with a dot is a key of the configuration. A word without
// "=" after a key is another element of its list. `A/B` saves after two of three steps in layout A
// and resumes in B.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/derived/layout.h"
#include "config/schema/job_config.h"

namespace rondo {

struct ProofLayout {
  std::int64_t replicate = 1, shard = 1, context = 1, tensor = 1, experts = 1, expert_tensor = 1,
               microbatches = 1, pipeline = 1;
  std::vector<std::string> settings = {};  // "compile.memory_policy=full"

  std::int64_t data() const { return replicate * shard; }
  std::int64_t ranks() const { return pipeline * data() * context * tensor; }
  // Returns the ranks of a replica that experts are divided among.
  std::int64_t expert_ranks() const { return shard * context * tensor / expert_tensor; }
  // Returns the degrees above 1 with the names of their axes.
  std::vector<std::pair<std::string, std::int64_t>> degrees() const;
  std::string text() const;
  // Returns the flags of `rondo train` for a step of `global_batch` sequences.
  std::vector<std::string> flags(std::int64_t global_batch) const;
};

// The layouts of a proof: one, or two; the second resumes from the checkpoint of the first.
struct ProofCase {
  std::vector<ProofLayout> layouts = {{}};

  std::string text() const;
  std::int64_t ranks() const;         // the largest number of its layouts
  std::int64_t global_batch() const;  // sequences per step: 24, or a common multiple
  // Returns the settings that one rank must have too: all except those of the layout and
  // the compiler.
  std::vector<std::string> common_settings() const;
};

// Reads a case from text. Returns the rule that the text breaks, or "".
std::string read_case(const std::string& text, ProofCase& read);

// Returns whether the layout divides the sizes of the model evenly, and the stages of its pipeline
// divide the layers.
bool has_layout(const JobConfig& job, const ProofLayout& layout);

// Returns all degrees of up to `most_ranks` ranks. Layouts that divide experts have each of
// the exchanges.
std::vector<ProofCase> all_layouts(const JobConfig& job, std::int64_t most_ranks);
// Returns all_layouts and, for some of them, each way to train that must not change the numbers:
// accumulation, document attention, memory policies, bucketing, fused ops, chunked loss,
// resharding, gradients reduced once a step, room for experts, executors; and a layout that resumes
// another one.
std::vector<ProofCase> all_cases(const JobConfig& job, std::int64_t most_ranks);
// Returns `count` random combinations of these, which depend on the seed alone.
std::vector<ProofCase> random_cases(const JobConfig& job, std::int64_t most_ranks, std::int64_t count,
                                    std::uint64_t seed);
// Returns the axes of a job with degrees of 2, or 3 if 2 does not divide them, and accumulation
// over 2 microbatches.
ProofLayout shrunk_layout(const Layout& layout);

}  // namespace rondo

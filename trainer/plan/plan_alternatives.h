// Other ways to run a job that take less memory a rank, the cheapest first: what a plan tries when the job
// does not fit. No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/derived.h"
#include "trainer/config/schema/job_config.h"

namespace rondo {

struct Variant {
  std::string what;   // for people: "local batch 1 instead of 4, 4 microbatches a step"
  std::string flags;  // what to type
  JobConfig config;
  std::int64_t world = 1;
};

// One change each, then all of them together with more and more ranks. The global batch stays where the
// change is not one of ranks.
std::vector<Variant> variants_that_take_less(const JobConfig& config, const Layout& layout);

}  // namespace rondo

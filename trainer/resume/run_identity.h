// Whose checkpoint it is: the part of a manifest that is the same for all steps of a run.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "parallel/rendezvous/environment.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/config/derived.h"
#include "trainer/config/schema/job_config.h"

namespace rondo {

// What the manifest says of the run and not of the step.
struct RunIdentity {
  std::string run;  // letters, digits, '-' and '_'
  int attempt = 0;
  std::uint64_t seed = 0;
  checkpoint::ModelFacts model;
  std::string config_hash;
  nlohmann::json layout;
};

RunIdentity identity_of(const JobConfig& config, const Layout& layout, const RankEnvironment& environment);

}  // namespace rondo

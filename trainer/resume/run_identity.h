// Whose checkpoint it is: the part of a manifest that is the same for all steps of a run.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "config/derived.h"
#include "config/schema/job_config.h"
#include "launch/rendezvous/environment.h"

namespace rondo {

// What the manifest says of the run and not of the step.
struct RunIdentity {
  std::string run;  // letters, digits, '-' and '_'
  int attempt = 0;
  std::uint64_t seed = 0;
  checkpoint::ModelFacts model;
  std::string config_hash;
  std::vector<std::string> settings;
  nlohmann::json layout;
};

// `settings`: lines "optimizer.lr = 0.0008", by which a run that resumes sees what is another one now.
RunIdentity identity_of(const JobConfig& config, const Layout& layout, const RankEnvironment& environment,
                        std::vector<std::string> settings);

}  // namespace rondo

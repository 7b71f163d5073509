// The identity of a run in its checkpoints: the part of a manifest that is the same for all steps.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "config/derived/layout.h"
#include "config/schema/job_config.h"
#include "launch/rendezvous/environment.h"

namespace rondo {

// The fields of a manifest that describe the run, not the step.
struct RunIdentity {
  std::string run;  // letters, digits, '-' and '_'
  int attempt = 0;
  std::uint64_t seed = 0;
  checkpoint::ModelFacts model;
  std::string config_hash;
  std::vector<std::string> settings;
  nlohmann::json layout;
};

// `settings`: lines "optimizer.lr = 0.0008", by which a resumed run finds changed settings.
RunIdentity identity_of(const JobConfig& config, const Layout& layout, const RankEnvironment& environment,
                        std::vector<std::string> settings);

}  // namespace rondo

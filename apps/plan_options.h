// Arguments of `rondo plan`. No LibTorch: rondo reads them before it starts the worker.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/cost_model.h"
#include "config/schema/job_config.h"

namespace rondo {

// Upper bound of the ranks of a planned or tuned job.
inline constexpr std::int64_t kMostRanks = 1'000'000;

struct PlanOptions {
  JobConfig config;
  std::int64_t world = 1;
  std::optional<std::int64_t> rank;
  ir::DeviceModel device;
  std::filesystem::path timeline;  // empty: not written
  std::filesystem::path picture;   // of the pipeline's schedule; empty: not written
  std::int64_t tokens = 0;         // of the run; 0: from training.steps
  double search_seconds = 30;      // time limit of the search for layouts that fit; 0: no search
  bool json = false;
};

// Parses the arguments. Returns nullopt after printing --help. Throws Error(usage) for a flag, and
// Error(config) for the configuration or the number of ranks.
std::optional<PlanOptions> read_plan_options(const std::vector<std::string>& args);

}  // namespace rondo

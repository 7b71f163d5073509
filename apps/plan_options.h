// The words of `rondo plan`. No LibTorch: rondo reads them before it starts the worker.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/cost_model.h"
#include "config/schema/job_config.h"

namespace rondo {

// Of a job that is planned or tuned.
inline constexpr std::int64_t kMostRanks = 1'000'000;

struct PlanOptions {
  JobConfig config;
  std::int64_t world = 1;
  std::optional<std::int64_t> rank;
  ir::DeviceModel device;
  std::filesystem::path timeline;  // empty: none is written
  std::filesystem::path picture;   // of a pipeline's schedule; empty: none is written
  std::int64_t tokens = 0;         // of the run; 0: as many as its steps have
  double search_seconds = 30;      // for what would make the job fit; 0: no search
  bool json = false;
};

// std::nullopt: --help was asked for, and is printed. Throws Error(usage) for a flag, Error(config) for what
// the configuration or the number of ranks breaks.
std::optional<PlanOptions> read_plan_options(const std::vector<std::string>& args);

}  // namespace rondo

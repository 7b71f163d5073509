// The words of `rondo plan`. No LibTorch: rondo reads them before it starts the worker.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/cost_model.h"
#include "trainer/config/schema/job_config.h"

namespace rondo {

struct PlanOptions {
  JobConfig config;
  std::int64_t world = 1;
  std::int64_t rank = 0;
  const ir::DeviceModel* device = nullptr;
  std::filesystem::path timeline;  // empty: none is written
  bool json = false;
};

// std::nullopt: --help was asked for, and is printed. Throws Error(usage) for a flag, Error(config) for what
// the configuration or the number of ranks breaks.
std::optional<PlanOptions> read_plan_options(const std::vector<std::string>& args);

}  // namespace rondo

// The words of `rondo config check`. No LibTorch: rondo reads them before it starts the worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

struct CheckOptions {
  JobConfig config;
  std::int64_t world = 1;  // ranks of the job that is traced
  bool traces = true;      // false: --no-trace, or an eager run, which has no graph
};

// std::nullopt: --help was asked for, and is printed. Throws Error(usage) for a flag, Error(config) for what
// the configuration or the number of ranks breaks.
std::optional<CheckOptions> read_check_options(const std::vector<std::string>& args);

// Prints the notes and the fingerprint of a configuration that train would take.
void print_valid(const JobConfig& config);

}  // namespace rondo

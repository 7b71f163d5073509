// Arguments of `rondo config check`. No LibTorch: rondo reads them before it starts the worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

struct CheckOptions {
  JobConfig config;
  std::int64_t world = 1;  // ranks of the traced job
  bool traces = true;      // false with --no-trace, and for eager runs, which have no graph
};

// Parses the arguments. Returns nullopt after printing --help. Throws Error(usage) for a flag, and
// Error(config) for the configuration or the number of ranks.
std::optional<CheckOptions> read_check_options(const std::vector<std::string>& args);

// Prints the notes and the fingerprint of a valid configuration.
void print_valid(const JobConfig& config);

}  // namespace rondo

// Arguments of `rondo tune`. No LibTorch: rondo reads them before it starts the worker.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

struct TuneOptions {
  JobConfig config;  // without compile.matmul_algorithms
  std::int64_t world = 1;
  std::filesystem::path out = "matmul_algorithms.json";
};

// Parses the arguments. Returns nullopt after printing --help. Throws Error(usage) for a flag, and
// Error(config) for the configuration or the number of ranks.
std::optional<TuneOptions> read_tune_options(const std::vector<std::string>& args);

}  // namespace rondo

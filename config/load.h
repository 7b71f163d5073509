// From command line and files to a checked configuration. Precedence: default < the model's size file < TOML
// files < flags; of two files, and of two flags for one key, the last wins.
#pragma once

#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

// `args`: the words after `rondo train`: TOML files (also --job.config_file) and keys, --section.key=value.
// `device`: "cpu" or "cuda", what the graph would run on; "": what job.device comes to here. Throws one
// Error(ExitCode::config) that holds every problem, a line each:
//   configs/x.toml:12:1: training.steps = 0: must be at least 1
//   command line: --training.stps=20: unknown key (did you mean training.steps?)
JobConfig load_config(const std::vector<std::string>& args, std::optional<TargetDevice> device = {});

// What a run asks before it starts, and `rondo config check` too: also whether this machine has job.device.
// Throws what load_config and device_of throw.
JobConfig load_config_to_run(const std::vector<std::string>& args);

}  // namespace rondo

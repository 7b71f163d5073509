// Loads a configuration from files and flags and checks it. Precedence: default < flavor of the
// model < TOML files < flags. Of two files, or two flags of one key, the last wins.
#pragma once

#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

// `args`: the words after `rondo train`: TOML files (also --job.config_file) and keys,
// --section.key=value. `device`: the device of the graph; nullopt: job.device as resolved here.
// Throws one Error(config) with a line for every problem:
//   configs/x.toml:12:1: training.steps = 0: must be at least 1
//   command line: --training.stps=20: unknown key (did you mean training.steps?)
JobConfig load_config(const std::vector<std::string>& args, std::optional<TargetDevice> device = {});

// Loads the configuration of a run, also for `rondo config check`. Throws as load_config, and as
// device_of if this machine lacks job.device.
JobConfig load_config_to_run(const std::vector<std::string>& args);

}  // namespace rondo

// From command line and file to a checked configuration. Precedence: default < the model's size file < TOML
// file < flags; of two flags for one key the last wins.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/schema/job_config.h"

namespace rondo {

// `args`: the words after `rondo train`; --job.config_file names the TOML file. Throws one
// Error(ExitCode::config) that holds every problem, a line each:
//   configs/x.toml:12:1: training.steps = 0: must be at least 1
//   command line: --training.stps=20: unknown key (did you mean training.steps?)
JobConfig load_config(const std::vector<std::string>& args);

}  // namespace rondo

// What people read of a run before its first step and after its last: lines of text, each without a newline.
// Plain C++, no LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/schema/job_config.h"
#include "datasets/loader.h"
#include "runs/read_run.h"

namespace rondo {

// `tokens_of_run`: of all steps and ranks. `validation`: nullptr without one. A share of held-out tokens that
// is far from the share of documents that was asked for is said: documents are held out whole.
std::vector<std::string> data_lines(const JobConfig& config, const DataSummary& training,
                                    const DataSummary* validation, std::int64_t tokens_of_run);

struct RunEnd {
  std::int64_t step = 0;
  std::int64_t tokens_seen = 0;
  bool finished = false;              // or stopped before its last step
  double seconds = 0;                 // since the process started
  double paused_s = 0;                // of these, for validation and saving
  std::int64_t last_saved_step = -1;  // -1: none
};

// `log`: the whole run, steps before a resume included; without lines no losses are told.
std::vector<std::string> end_lines(const JobConfig& config, const RunEnd& end, const RunLog& log);

}  // namespace rondo

// Formats the console lines before a run's first step and after its last, each without a newline.
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

// Returns lines about the data. `tokens_of_run`: of all steps and ranks. `validation`: nullptr
// without validation. Explains a fraction of held-out tokens that is far from the requested
// fraction of documents: documents are held out whole.
std::vector<std::string> data_lines(const JobConfig& config, const DataSummary& training,
                                    const DataSummary* validation, std::int64_t tokens_of_run);

struct RunEnd {
  std::int64_t step = 0;
  std::int64_t tokens_seen = 0;
  bool finished = false;              // false: stopped before its last step
  double seconds = 0;                 // since the process started
  double paused_s = 0;                // the part of `seconds` for validation and saves
  std::int64_t last_saved_step = -1;  // -1: no save
};

// Returns lines about the end of a run. `log`: the whole run, including steps before a resume;
// without lines, losses are left out.
std::vector<std::string> end_lines(const JobConfig& config, const RunEnd& end, const RunLog& log);

}  // namespace rondo

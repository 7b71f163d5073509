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
#include "trainer/step/lr_schedule.h"

namespace rondo {

// Tokens of all ranks.
struct RunTokens {
  std::int64_t whole = 0;  // of all steps
  std::int64_t step = 1;   // of one step from here on
};
// Returns lines about the data. `validation`: nullptr
// without validation. Explains a fraction of held-out tokens that is far from the requested
// fraction of documents: documents are held out whole.
std::vector<std::string> data_lines(const JobConfig& config, const DataSummary& training,
                                    const DataSummary* validation, const RunTokens& tokens);

// "run folder: outputs; a checkpoint every 500 steps"
std::string run_folder_line(const Checkpoint& checkpoint, const std::string& path);

// Returns the peak that mfu refers to and its origin. `gpu`: its name; "" on the CPU, whose peak is
// mentioned only if it is set.
std::string peak_line(const JobConfig& config, std::optional<double> peak_flops, const std::string& gpu);

// Where the schedule of a run starts or continues.
struct ScheduleStart {
  std::int64_t step = 0;           // steps that are done
  std::int64_t schedule_step = 0;  // step of the schedule that comes next, from 0
  std::optional<RatesOfSaved> saved{};
};
// Returns the learning rate of the last step that is done, of the next and of the last one.
std::string learning_rate_line(const JobConfig& config, const ScheduleStart& start);
// Returns warnings: the settings of the checkpoint give the next step another learning rate, or the
// learning rate is 0 before the run ends.
std::vector<std::string> learning_rate_warnings(const JobConfig& config, const ScheduleStart& start);

struct RunEnd {
  std::int64_t step = 0;
  std::int64_t schedule_step = 0;  // step of the schedule that would come next
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

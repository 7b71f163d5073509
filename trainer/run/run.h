// The objects that one rank of a run owns, and the functions that create them. The trainer and
// `rondo eval` share them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/derived/layout.h"
#include "config/derived/matmul_table.h"
#include "config/derived/pipeline_layout.h"
#include "config/schema/job_config.h"
#include "datasets/loader.h"
#include "parallel/groups/groups.h"
#include "support/watch/step_watch.h"
#include "trainer/device/compute_device.h"
#include "trainer/resume/training_progress.h"
#include "trainer/run/telemetry.h"
#include "trainer/step/step_runner.h"
#include "trainer/step/train_state.h"

namespace rondo {

// Members are destroyed from the bottom up: executors and their recordings before the process
// groups that they use.
struct Run {
  // `config` must outlive the run. Throws Error(config) if the layout is impossible.
  Run(const JobConfig& config, const RankEnvironment& environment);

  const JobConfig& config;
  const RankEnvironment environment;
  const Layout layout;
  const std::optional<PipelineLayout> pipeline;
  const std::optional<MatmulTable> matmuls;
  ComputeDevice device;
  std::shared_ptr<const Decoder> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ProcessGroups> groups;
  std::unique_ptr<StepProgram> program;
  std::unique_ptr<TrainState> state;
  std::optional<StepWatch> watch;
  std::unique_ptr<StepRunner> runner;
  std::unique_ptr<DataLoader> data, validation_data;
  TrainingProgress progress;    // counts the steps in flight
  std::int64_t steps_read = 0;  // since the process started

  // Returns the last step of the run: 0 for a seed checkpoint.
  std::int64_t last_step() const {
    return config.checkpoint.create_seed_checkpoint ? 0 : config.training.steps;
  }
  bool is_over() const { return progress.step >= last_step(); }
  bool validates(std::int64_t step) const;
  // Returns lines "key = value" of everything that determines the numbers of the run and could
  // differ between nodes.
  std::vector<std::string> settings() const;
  RunCosts costs() const;
};

// The following functions are called in this order; each needs the results of the previous ones.

// Selects the device, builds the model, opens tokenizer and data. Needs neither weights nor other
// ranks.
void open(Run& run);
// Traces and compiles the step.
void compile(Run& run, const Telemetry& telemetry);
// Joins the other ranks. `finished`: whether this rank finds that all steps are done. Throws
// Error(peer), or Error(checkpoint) if other ranks find something else.
void join_ranks(Run& run, bool finished);
// Joins the other ranks, and compares settings and collectives with theirs before it creates
// further groups. Throws as join_ranks, Error(config) or Error(graph).
void init_process_groups(Run& run, const Telemetry& telemetry);
// Initialises the weights and binds the executors to the state. `on_hang` is called from a separate
// thread when a step makes no progress.
void init_state(Run& run, std::function<void(const std::string&)> on_hang);

// Sets the file of this rank's crash report, in the run folder. REQUIRES: the folder is this run's.
void name_crash_file(const Run& run);

}  // namespace rondo

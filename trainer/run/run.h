// What one rank of a run owns, and how it is prepared. The trainer and `rondo eval` share these parts.
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

// Members are destroyed from the bottom up: executors and their recordings before the process groups that
// they use.
struct Run {
  // `config` outlives the run. Throws Error(config) where the layout is impossible.
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

  // A seed checkpoint is step 0 alone.
  std::int64_t last_step() const {
    return config.checkpoint.create_seed_checkpoint ? 0 : config.training.steps;
  }
  bool is_over() const { return progress.step == last_step(); }
  bool validates(std::int64_t step) const;
  // Lines "key = value" of all that decides the numbers of the run and could differ between nodes.
  std::vector<std::string> settings() const;
  RunCosts costs() const;
};

// Each of these needs those before it.

// Takes the device, builds the model, opens tokenizer and data. Needs neither weights nor other ranks.
void open(Run& run);
// Traces and compiles the step.
void compile(Run& run, const Telemetry& tell);
// Joins the other ranks, and compares settings and collectives with theirs before any group waits for another.
// Throws Error(config), Error(graph) or Error(peer).
void init_process_groups(Run& run, const Telemetry& tell);
// Initialises the weights and binds the executors to the state. `on_hang` is called, from a thread of its own,
// when a step makes no progress.
void init_state(Run& run, std::function<void(const std::string&)> on_hang);

// Where a crash of this rank is written: below the run folder, once that is this run's.
void name_crash_file(const Run& run);

}  // namespace rondo

// A run of one rank, from configuration to the last step.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "parallel/groups.h"
#include "trainer/config/derived.h"
#include "trainer/config/job_config.h"
#include "trainer/data/loader.h"
#include "trainer/report.h"
#include "trainer/step_runner.h"
#include "trainer/train_state.h"

namespace rondo {

class Trainer {
 public:
  // Builds the model, traces and compiles the step, meets the other ranks, draws the weights. Throws Error.
  // `report` is rank 0's, nullptr on the others; it and `config` outlive the trainer.
  Trainer(const JobConfig& config, const RankEnvironment& environment, Report* report);
  ~Trainer();

  // Trains to the last step, or to a stop signal, and returns the signal. Throws Error(numerics) at a step
  // that is not finite (the state is then as before that step), Error(peer) when another rank is lost.
  std::optional<int> train();

  std::int64_t steps_done() const { return step_; }

 private:
  RunCosts costs() const;
  void compare_collectives();
  StepResult train_one_step();
  [[noreturn]] void refuse(const StepResult& result) const;
  void validate();
  std::optional<std::string> hash_if_asked();

  const JobConfig& config_;
  const Layout layout_;
  std::shared_ptr<const Decoder> model_;
  Report* report_;
  // Destroyed from the bottom up: executors before the groups that they use.
  std::unique_ptr<ProcessGroups> groups_;
  std::unique_ptr<CompiledFunctions> functions_;
  std::unique_ptr<TrainState> state_;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<DataLoader> data_, validation_data_;
  std::int64_t step_ = 0;
};

}  // namespace rondo

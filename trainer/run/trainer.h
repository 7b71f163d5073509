// A run of one rank, from configuration to the last step.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "config/derived.h"
#include "config/matmul_table.h"
#include "config/pipeline_layout.h"
#include "config/schema/job_config.h"
#include "datasets/loader.h"
#include "parallel/groups/groups.h"
#include "support/error.h"
#include "support/files/folder_lock.h"
#include "support/watch/step_watch.h"
#include "trainer/device/compute_device.h"
#include "trainer/observe/memory_snapshot.h"
#include "trainer/observe/profile.h"
#include "trainer/observe/report.h"
#include "trainer/resume/checkpoint_restore.h"
#include "trainer/resume/checkpoint_saver.h"
#include "trainer/resume/progress.h"
#include "trainer/run/stop_request.h"
#include "trainer/run/stragglers.h"
#include "trainer/step/step_runner.h"
#include "trainer/step/train_state.h"

namespace rondo {

// Why a run ended before its last step, and whether it can go on from there.
struct Stop {
  StopRequest request = StopRequest::none;
  int signal = 0;  // with StopRequest::signal
  bool saved = false;
  ExitCode code = ExitCode::resources;  // with StopRequest::full_disk and data
  std::string details = "";             // with these: what failed, on the rank where it did
};

class Trainer {
 public:
  // `report` is rank 0's, nullptr on the others; it and `config` outlive the trainer. job.time_limit_seconds
  // counts from `started`. `on_hang` is told, from a thread of its own, when a step stands still; it ends the
  // process. Throws Error(config).
  Trainer(const JobConfig& config, const RankEnvironment& environment, Report* report,
          std::chrono::steady_clock::time_point started, std::function<void(const std::string&)> on_hang);
  // Executors and their recordings first, then the groups that they use. May hang where another rank does.
  ~Trainer();

  // Takes the device, builds the model, opens the data and looks at what the run begins with. Only when all
  // of that is accepted, the run folder is this run's. Then traces and compiles the step, meets the other
  // ranks, draws the weights, binds the executors to them. False: all steps are done already, and nothing was
  // touched. Throws Error.
  bool prepare();

  // Trains to the last step, or until something asks it to stop, and saves on the way and at the end as the
  // configuration says. Throws Error(numerics) at a step that is not finite (the state is then as before that
  // step) and where many steps in a row are skipped, Error(peer) when another rank is lost.
  std::optional<Stop> train();

  // Steps whose numbers were read.
  std::int64_t steps_done() const { return progress_.step - std::ssize(under_way_); }
  // Waits for what is still being written; deletes nothing more.
  void close_checkpoints();
  // Ends collectives that wait for other ranks, so that the trainer can be destroyed; it is of no other use
  // then. Whoever has it may call it from any thread, while the trainer is destroyed and after that, too.
  std::function<void()> ending_of_collectives() const;

 private:
  RunCosts costs() const;
  bool accept_start();
  void name_crash_file() const;  // below the run folder, which is this run's
  RestoreRequest restore_request() const;
  void compile();
  void meet();
  std::vector<std::string> settings() const;
  void decide_repeats();
  void draw_weights();
  void bind_executors();
  void watch();  // what the configuration wants to see of the run
  void begin();
  void load_checkpoint();
  bool fetch(DataLoader& data, StepBatch& batch);
  void fetch_next();
  void train_one_step();
  void begin_step();
  bool reads_at_once(std::int64_t step) const;
  void finish_steps();
  StepResult wait_for_oldest();
  void step_is_done(const StepResult& result);
  // What all ranks do after this step; the one exchange of host data a step.
  struct Agreement {
    StopRequest request = StopRequest::none;
    int signal = 0;
  };
  Agreement agree();
  std::int64_t last_step() const;
  bool validation_is_due(std::int64_t step) const;
  bool save_is_due(const Agreement& asked) const;
  void save();
  std::optional<Stop> stop(const Agreement& asked);
  void set_aside_newer(const std::filesystem::path& root);
  void save_seed();
  void finish();
  void tell_end();
  void save_last();
  void save_weights_beside();
  void export_weights();
  [[noreturn]] void refuse(const StepResult& result, std::int64_t step) const;
  void count_skipped(const StepResult& result, std::int64_t step);
  void validate();
  bool inspection_is_due(std::int64_t step) const;
  std::optional<std::string> inspect_state(std::int64_t step);  // the hash, where it is due
  void refuse_drift();

  const JobConfig& config_;
  const RankEnvironment environment_;
  const std::chrono::steady_clock::time_point started_;
  const std::function<void(const std::string&)> on_hang_;
  const Layout layout_;
  const std::optional<PipelineLayout> pipeline_;
  const std::optional<MatmulTable> matmuls_;
  Report* report_;
  ComputeDevice device_;
  std::shared_ptr<const Decoder> model_;
  // Destroyed from the bottom up: executors before the groups that they use.
  std::unique_ptr<ProcessGroups> groups_;
  std::unique_ptr<StepProgram> functions_;
  std::unique_ptr<TrainState> state_;
  std::optional<StepWatch> watch_;
  std::unique_ptr<StepRunner> runner_;
  std::optional<Profile> profile_;  // where the configuration asks for them
  std::optional<MemorySnapshot> snapshot_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<DataLoader> data_, validation_data_;
  StepBatch batch_;                    // of the coming step
  double data_wait_s_ = 0;             // for it
  std::optional<Error> data_trouble_;  // why this rank has no batch
  Start start_;
  std::optional<FolderLock> checkpoint_lock_;  // rank 0's
  std::unique_ptr<CheckpointSaver> saver_;     // nullptr: nothing is saved
  std::optional<StopRequests> stop_requests_;  // rank 0's
  Progress progress_;                          // the steps under way are counted
  std::deque<DoneStep> under_way_;             // begun, and not read
  Stragglers stragglers_;
  std::int64_t compared_at_ = -1;      // the step at which replicas were found alike
  std::int64_t steps_here_ = 0;        // read since the process started
  std::int64_t skipped_in_a_row_ = 0;  // of the latest of these
};

}  // namespace rondo

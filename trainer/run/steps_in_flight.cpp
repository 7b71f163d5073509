// Runs steps with a lag of at most one. A step is issued, then the oldest step is read when two are
// in flight or something needs its result. Everything that is reported about a step is collected
// when it is issued, since progress counts later steps when its numbers arrive.
#include "trainer/run/steps_in_flight.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <filesystem>

#include "trainer/step/lr_schedule.h"

namespace rondo {

StepsInFlight::StepsInFlight(Run& run, Guards& guards, const Telemetry& telemetry)
    : run_(run), guards_(guards), telemetry_(telemetry) {
  const std::filesystem::path folder = run.config.job.dump_folder;
  const Profiling& p = run.config.profiling;
  const RankEnvironment& e = run.environment;
  if (p.enable_profiling) profile_.emplace(p, folder / p.save_traces_folder, e.rank, e.world_size);
  if (p.enable_memory_snapshot)
    snapshot_.emplace(p, folder / p.save_memory_snapshot_folder, run.program->all(), e.rank, e.world_size);
}

void StepsInFlight::begin(BatchFeed& feed) {
  const std::int64_t step = run_.progress.step + 1;
  progress::at_step(step);
  // Two steps that are read together would share one measured time.
  if (reads_at_once(step)) finish();
  if (profile_) profile_->step_begins(step);
  std::optional<StepResult> result;
  try {
    const StepWatch::Span watched(*run_.watch, progress::Doing::training);
    issue(feed);
    if (count() > 1 || reads_at_once(step)) result = wait_for_oldest();
  } catch (const std::exception& failure) {
    if (snapshot_) snapshot_->step_failed(run_.progress.step - count() + 1, failure);
    // Says which group has ended and why. The collective that failed knows only that it has ended.
    if (dynamic_cast<const c10::DistError*>(&failure) != nullptr) run_.groups->refuse_failed();
    throw;
  }
  if (result) report_oldest(*result);
}

void StepsInFlight::issue(BatchFeed& feed) {
  TrainingProgress& progress = run_.progress;
  const Mesh& mesh = run_.layout.mesh;
  // The graph takes fp32, so the reported value is the one in use.
  const float learning_rate = rondo::learning_rate(run_.config, progress.schedule_step);
  StepBatch batch = feed.take();
  std::optional<double> imbalance;
  if (mesh.degree(Axis::cp) > 1 && !run_.config.parallelism.exchanges_heads())
    imbalance = batch.attention_imbalance;
  const std::int64_t tokens = batch.tokens * mesh.degree(kTokenAxes);
  run_.runner->begin(std::move(batch), learning_rate);
  ++progress.step;
  ++progress.schedule_step;
  progress.tokens_seen += tokens;
  progress.data = run_.data->state();
  steps_.push_back({.step = progress.step,
                    .tokens_seen = progress.tokens_seen,
                    .learning_rate = learning_rate,
                    .data_wait_s = feed.wait_s(),
                    .attention_imbalance = imbalance,
                    .state_hash = {},
                    .validates = run_.validates(progress.step)});
}

// Returns whether the host must read a step before it issues the next one.
bool StepsInFlight::reads_at_once(std::int64_t step) const {
  const std::int64_t lag = run_.config.metrics.lag;
  const bool lags = lag == 1 || (lag == -1 && run_.device.device.is_cuda());
  return !lags || run_.steps_read == 0 || step == run_.last_step() || run_.validates(step) ||
         guards_.inspects(step) || snapshot_ || (profile_ && profile_->is_beside_window(step));
}

void StepsInFlight::finish() {
  while (!steps_.empty()) {
    const StepResult result = [&] {
      const StepWatch::Span watched(*run_.watch, progress::Doing::training);
      return wait_for_oldest();
    }();
    report_oldest(result);
  }
}

StepResult StepsInFlight::wait_for_oldest() {
  progress::at_step(steps_.front().step);
  StepResult result = run_.runner->finish();
  run_.groups->refuse_failed();  // a failed collective leaves no result
  return result;
}

void StepsInFlight::report_oldest(const StepResult& result) {
  DoneStep done = steps_.front();
  steps_.pop_front();
  ++run_.steps_read;
  if (snapshot_) snapshot_->step_done(done.step);
  done.state_hash = guards_.inspect(done.step);
  telemetry_(&Report::step_done, done, result);
  if (run_.steps_read == 2)
    if (const auto stats = run_.runner->replay_stats()) telemetry_(&Report::replaying, *stats);
  if (profile_) {
    const Telemetry::Pause pause(telemetry_);
    profile_->step_ends(done.step);
  }
  guards_.check(result, done.step);
  if (run_.steps_read == 1)
    run_.groups->set_timeout(std::chrono::seconds(run_.config.comm.train_timeout_seconds));
}

void StepsInFlight::close_profile() {
  if (profile_) profile_->finish(run_.progress.step);
}

}  // namespace rondo

// `pipeline_idle [MILLISECONDS]`: compares how long ranks of a pipeline wait with the simulator
// (parallel/pipeline/simulate.h). Four processes run each schedule with real messages over Gloo.
// Their bodies sleep instead of computing, F, I and W for the given milliseconds each (40), so that
// any machine can run them in parallel. Prints a row for each rank of a schedule: its simulated and
// its measured wait in the shortest of a few steps, since other load on the machine only lengthens
// steps. The median gap between two bodies is the runner's own time and does not count as a wait.
//
// docs/results/pipeline_idle_2026-11-23.md has a table. Exit code: 1 if a rank's wait is not within
// 5 % of the simulated wait.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "config/load.h"
#include "launch/rank_pool.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/simulate.h"
#include "support/flags/flag_values.h"
#include "support/median.h"
#include "support/stopwatch.h"
#include "trainer/step/from_config.h"
#include "trainer/step/pipeline_runner.h"
#include "trainer/step/train_state.h"

namespace rondo {
namespace {

constexpr int kRanks = 4, kMicrobatches = 8, kLength = 32;
constexpr double kMaxDifference = 0.05;

JobConfig config_of(const pipeline::Schedule& schedule) {
  return load_config({"--model.flavor=debugmodel",
                      fmt::format("--model.n_layers={}", kRanks * schedule.default_stages_per_rank - 2),
                      fmt::format("--training.seq_len={}", kLength),
                      fmt::format("--training.local_batch_size={}", kMicrobatches),
                      "--parallelism.pipeline_parallel_schedule=" + schedule.name,
                      fmt::format("--parallelism.pipeline_parallel_degree={}", kRanks),
                      "--parallelism.pipeline_parallel_expert_parallel_overlap=false",
                      "--validation.enable=false", "--compile.enable=false"});
}

// Returns the seconds that a rank waited in the shortest step, which lasts until the last rank
// has ended.
double measured(const JobConfig& config, double seconds) {
  const RankEnvironment environment = rank_environment();
  const Layout layout = resolve_layout(config, kRanks);
  const auto pipeline = pipeline_layout(config, layout);
  const auto model = make_decoder(config.model.name, config.model.sizes);
  ProcessGroups groups(environment, layout.mesh.group(kAllAxes).name, std::chrono::seconds(60));
  groups.add(process_groups(config, layout, pipeline, environment.rank));
  StepProgram functions = compile_step(config, layout, pipeline, environment.rank, model,
                                       compile_request(config, TargetDevice::cpu, {}));
  const auto time_of = [&](ir::Body body) { return body == ir::Body::backward ? 2 * seconds : seconds; };
  double busy = 0, last_end = 0;
  std::vector<double> gaps;  // between two bodies
  Stopwatch started;
  for (CompiledStage& stage : functions.pipeline->stages)
    stage.eager = [&](ir::Body body, std::int64_t, const std::vector<at::Tensor>&) {
      const double begin = started.seconds();
      if (last_end > 0) gaps.push_back(begin - last_end);
      std::this_thread::sleep_for(std::chrono::duration<double>(time_of(body)));
      last_end = started.seconds();
      busy += last_end - begin;
    };
  std::vector<const StepFunction*> state_functions;
  for (const CompiledStep* function : functions.all()) state_functions.push_back(&function->function());
  const TrainState state(*model, state_functions, /*seed=*/1, layout.mesh, environment.rank,
                         config.training.seq_len);
  PipelineRunner runner(*functions.pipeline, state, {});
  const std::vector<std::int64_t> row(kLength, 0);
  Batch microbatch;
  microbatch.tokens = microbatch.labels = microbatch.positions = row;
  const StepBatch batch{.microbatches = std::vector<Batch>(kMicrobatches, microbatch), .valid_tokens = 1};
  double least = INFINITY, waited = 0;
  for (double step = 0; step < std::max(2.0, 0.4 / seconds); ++step) {
    groups.barrier();
    busy = last_end = 0;
    gaps.clear();
    started = {};
    runner.run(batch);
    const auto own_us = static_cast<std::int64_t>(1e6 * started.seconds());
    const double step_s = 1e-6 * static_cast<double>(groups.maximum({own_us})[0]);
    if (step_s >= least) continue;
    least = step_s;
    waited = step_s - busy - static_cast<double>(gaps.size()) * median(gaps);
  }
  return waited;
}

// Runs one rank, which prints "RANK EXPECTED MEASURED" in milliseconds.
int play(const std::vector<std::string>& flags) {
  try {
    at::set_num_threads(1);
    const double seconds = std::stod(flags.at(1)) / 1e3;
    const JobConfig config = config_of(pipeline::schedule_named(flags.at(0)));
    const auto rank = static_cast<std::size_t>(rank_environment().rank);
    const auto pipeline = pipeline_layout(config, resolve_layout(config, kRanks));
    const pipeline::Times times{{{seconds, seconds, seconds}}, {0}};
    const pipeline::Timeline timeline = simulate(pipeline->program, times, false);
    const double expected = timeline.end - timeline.busy[rank];
    fmt::print("{}\t{:.1f}\t{:.1f}\n", rank, 1e3 * expected, 1e3 * measured(config, seconds));
    return 0;
  } catch (const std::exception& error) {
    fmt::print("error: {}\n", error.what());
    return 1;
  }
}

int compare(const char* program, const char* milliseconds) {
  launch::RankPool pool(program, kRanks);
  fmt::print("| schedule | rank | simulated | measured | apart |\n|---|---|---|---|---|\n");
  double most = 0;
  for (const pipeline::Schedule& schedule : pipeline::schedules()) {
    const launch::PlayedRun run = pool.play(kRanks, {schedule.name, milliseconds}, std::chrono::seconds(120));
    std::vector<std::string> rows;
    for (const std::string& line : split(run.output, '\n')) {
      const std::vector<std::string> words = split(line, '\t');
      if (words.size() != 3) continue;
      const double expected = std::stod(words[1]), waited = std::stod(words[2]);
      const double apart = (waited - expected) / expected;
      most = std::max(most, std::abs(apart));
      rows.push_back(fmt::format("| {} | {} | {} ms | {} ms | {:+.1f} % |", schedule.name, words[0], words[1],
                                 words[2], 100 * apart));
    }
    if (run.exit_code != 0 || rows.size() != kRanks) {
      fmt::print(stderr, "{}: exit code {}\n{}", schedule.name, run.exit_code, run.output);
      return 2;
    }
    std::sort(rows.begin(), rows.end());
    for (const std::string& row : rows) fmt::print("{}\n", row);
    std::fflush(stdout);
  }
  fmt::print("\nat most {:.1f} % apart\n", 100 * most);
  return most <= kMaxDifference ? 0 : 1;
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  if (argc == 3) return rondo::launch::serve_runs(argv[2], &rondo::play);
  return rondo::compare(argv[0], argc == 2 ? argv[1] : "40");
}

// Tests the parts of the training loop, each on one rank without a launcher.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "config/load.h"
#include "support/error.h"
#include "tests/datasets/temp_folder.h"
#include "trainer/run/agreement.h"
#include "trainer/run/batch_feed.h"
#include "trainer/run/guards.h"
#include "trainer/run/run.h"
#include "trainer/run/saves.h"
#include "trainer/run/steps_in_flight.h"
#include "trainer/run/telemetry.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

// A run of one rank: a tiny model over its own text.
struct SmallRun {
  explicit SmallRun(const std::vector<std::string>& flags = {})
      : config(config_with(flags)), run(config, {}) {}
  void prepare() {
    open(run);
    compile(run, telemetry);
    init_process_groups(run, telemetry);
    init_state(run, &StepWatch::end_hung);
    run.progress.data = run.data->state();
  }
  JobConfig config_with(const std::vector<std::string>& more) {
    folder.write("text.txt", std::string(20'000, 'a'));
    std::vector<std::string> flags = {"--job.config_file=" RONDO_SOURCE_DIR "/configs/llama3_debug.toml",
                                      "--job.dump_folder=" + folder.path("run"),
                                      "--training.dataset_path=" + folder.path("text.txt"),
                                      "--training.local_batch_size=1",
                                      "--training.seq_len=16",
                                      "--training.steps=5",
                                      "--validation.enable=false",
                                      "--checkpoint.enable=false",
                                      "--model.n_layers=1",
                                      "--model.dim=32",
                                      "--model.n_heads=2",
                                      "--model.n_kv_heads=2"};
    flags.insert(flags.end(), more.begin(), more.end());
    return load_config(flags);
  }

  TempFolder folder;
  const JobConfig config;
  const Telemetry telemetry;  // silent
  Run run;
};

std::string message_of(const std::function<void()>& call, ExitCode code) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a step that is not finite ends the run and names the quantity and the step of the state") {
  SmallRun small;
  Guards guards(small.run);
  StepResult result{.loss = 2.5, .grad_norm = std::numeric_limits<double>::infinity(), .finite = false};
  CHECK_THAT(
      message_of([&] { guards.check(result, 7); }, ExitCode::numerics),
      ContainsSubstring("step 7: grad_norm is not finite (inf)") && ContainsSubstring("are as after step 6"));
  result.loss = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(message_of([&] { guards.check(result, 7); }, ExitCode::numerics),
             ContainsSubstring("step 7: loss is not finite (nan)"));

  SmallRun early({"--training.max_norm=inf", "--optimizer.early_step_in_backward=true"});
  CHECK_THAT(message_of([&] { Guards(early.run).check(result, 7); }, ExitCode::numerics),
             ContainsSubstring("has changed parameters and optimizer state; resume from a checkpoint"));
}

TEST_CASE("the remedy of a step that is not finite is of the setting that makes it so") {
  const StepResult result{.loss = 2.5, .grad_norm = std::numeric_limits<double>::infinity(), .finite = false};
  const auto remedy = [&](const std::vector<std::string>& flags) {
    SmallRun small(flags);
    return message_of([&] { Guards(small.run).check(result, 7); }, ExitCode::numerics);
  };
  CHECK_THAT(
      remedy({"--optimizer.eps=5e-324"}),
      ContainsSubstring("optimizer.eps = 5e-324 is 0 in float32") && !ContainsSubstring("optimizer.lr"));
  CHECK_THAT(remedy({"--optimizer.weight_decay=1e308", "--optimizer.lr=0.001"}),
             ContainsSubstring("0.001 * 1e+308 is above 1") &&
                 ContainsSubstring("lower optimizer.weight_decay") && !ContainsSubstring("max_norm"));
  CHECK_THAT(remedy({}), ContainsSubstring("Lower optimizer.lr or training.max_norm"));
}

TEST_CASE("ten consecutive skipped steps end the run, and a step that is applied resets the count") {
  SmallRun small;
  Guards guards(small.run);
  const StepResult skipped{.dropped_tokens = 3, .skipped = true}, applied{};
  for (std::int64_t step = 1; step < Guards::kMaxSkipped; ++step) guards.check(skipped, step);
  guards.check(applied, 10);
  for (std::int64_t step = 11; step < 20; ++step) guards.check(skipped, step);
  CHECK_THAT(message_of([&] { guards.check(skipped, 20); }, ExitCode::numerics),
             ContainsSubstring("as were the 9 before it") && ContainsSubstring("are as after step 10"));
}

TEST_CASE("with metrics.lag = 1 one step stays in flight, except the first and the last") {
  const bool lags = GENERATE(false, true);
  SmallRun small({lags ? "--metrics.lag=1" : "--metrics.lag=0"});
  small.prepare();
  Guards guards(small.run);
  BatchFeed feed(small.run);
  StepsInFlight steps(small.run, guards, small.telemetry);
  std::vector<std::int64_t> in_flight;
  while (!small.run.is_over()) {
    feed.fetch();
    steps.begin(feed);
    in_flight.push_back(steps.count());
  }
  CHECK(in_flight == std::vector<std::int64_t>{0, lags, lags, lags, 0});
  CHECK(small.run.steps_read == 5);
  CHECK(small.run.progress.step == 5);
}

TEST_CASE("steps whose state is hashed are read at once, for any lag") {
  SmallRun small({"--metrics.lag=1", "--debug.hash_every=2"});
  small.prepare();
  Guards guards(small.run);
  CHECK(guards.inspects(2));
  CHECK_FALSE(guards.inspects(3));
  BatchFeed feed(small.run);
  StepsInFlight steps(small.run, guards, small.telemetry);
  std::vector<std::int64_t> in_flight;
  for (int step = 1; step <= 4; ++step) {
    feed.fetch();
    steps.begin(feed);
    in_flight.push_back(steps.count());
  }
  CHECK(in_flight == std::vector<std::int64_t>{0, 0, 1, 0});
  steps.finish();
  CHECK(steps.count() == 0);
}

TEST_CASE("ranks without requests continue, and the most urgent request decides") {
  SmallRun small;
  small.prepare();
  Guards guards(small.run);
  BatchFeed feed(small.run);
  Saves saves(small.run, small.telemetry);
  const Agreement own = request_of_rank(nullptr, small.telemetry, feed);
  CHECK(own.request == StopRequest::none);
  CHECK_FALSE(agree(small.run, own, saves, guards).stops());
  const Agreement save = agree(small.run, {.request = StopRequest::save}, saves, guards);
  CHECK(save.saves());
  CHECK_FALSE(save.stops());
  const Agreement stop = agree(small.run, {.request = StopRequest::signal, .signal = 15}, saves, guards);
  CHECK(stop.stops());
  CHECK(stop.signal == 15);
}

TEST_CASE("an unreadable batch throws before the first step and is trouble after it") {
  SmallRun small({"--training.num_prefetch_batches=0"});
  small.prepare();
  BatchFeed feed(small.run);
  std::filesystem::resize_file(small.folder.path("text.txt"), 0);
  bool thrown = false;
  for (int i = 0; i < 2000 && !thrown; ++i) {
    try {
      feed.fetch();
    } catch (const Error&) {
      thrown = true;
    }
  }
  REQUIRE(thrown);
  CHECK_FALSE(feed.trouble());
  small.run.steps_read = 1;
  feed.fetch();
  REQUIRE(feed.trouble());
  CHECK(request_of_rank(nullptr, small.telemetry, feed).request == StopRequest::data);
}

TEST_CASE("a run that saves nothing has nothing to commit, and its last step is not saved") {
  SmallRun small;
  small.prepare();
  Saves saves(small.run, small.telemetry);
  saves.restore();
  CHECK_FALSE(saves.enabled());
  CHECK_FALSE(saves.writing());
  saves.save();
  saves.settle();
  CHECK(saves.last_saved_step() == -1);
  CHECK_FALSE(saves.is_saved());
}

}  // namespace rondo

// Tests expert parallelism with both exchanges, and its checkpoints: any layout reads the
// checkpoint of any other. expert_load.jsonl continues in a resumed run.
#include <numeric>

#include "tests/run/checkpoints.h"
#include "tests/run/layouts.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

const Layout kOne{}, kTwo{1, 2, 1, 2, "standard"}, kFour{1, 4, 1, 2, "static"};

// 8 sequences per step on any number of ranks, in 4 microbatches, 2, or 1.
const Words kSavesExperts = {"--checkpoint.enable=true",      "--lr_scheduler.total_steps=20",
                             "--training.local_batch_size=2", "--training.global_batch_size=8",
                             "--validation.enable=false",     "--metrics.log_freq=2"};

void run_to(const Place& place, const Layout& layout, const std::string& name, int steps,
            const Words& flags = {}) {
  place.play(layout.ranks(), name,
             layout.flags() + kSavesExperts + Words{fmt::format("--training.steps={}", steps)} + flags);
}

void check_close(double a, double b, double tolerance) { CHECK(std::abs(a - b) <= tolerance * std::abs(a)); }

TEST_CASE("the two exchanges have the same loss over three steps") {
  const Place place(kTinyDeepSeek);
  for (const std::string exchange : {"static", "standard"})
    run_to(place, {1, 2, 1, 2, exchange}, exchange, 3);
  const auto gathered = place.metrics("static"), sent = place.metrics("standard");
  REQUIRE(gathered.size() == 3);
  for (std::size_t step = 0; step < 3; ++step) check_close(gathered[step]["loss"], sent[step]["loss"], 1e-5);
}

// Compares weights, biases of the routers and averages of the optimizer.
TEST_CASE("layouts restore every bit of a layout with expert parallelism") {
  const Place place(kTinyDeepSeek);
  run_to(place, kFour, "first", 2);
  for (const Layout& layout : {kOne, kTwo}) {
    run_to(place, layout, layout.name(), 2,
           {"--checkpoint.initial_load_model_only=false",
            "--checkpoint.initial_load_path=" + (place / "first/checkpoint/step-2").string()});
    CHECK(check_same_tensors(place / "first/checkpoint/step-2", place / layout.name() / "checkpoint/step-2") >
          60);
  }
}

TEST_CASE("layouts restore every bit of a layout whose experts are cut, and the other way round") {
  const Place place(kTinyDeepSeek);
  const Layout cut{1, 2, 2, 2, "static"};
  const Words flags = {"--parallelism.expert_tensor_parallel_degree=2", "--model.n_heads=4"};
  const auto take_over = [&](const std::string& from, const Layout& layout, const std::string& name,
                             const Words& more) {
    run_to(place, layout, name, 2,
           more + Words{"--checkpoint.initial_load_model_only=false",
                        "--checkpoint.initial_load_path=" + (place / from / "checkpoint/step-2").string()});
    CHECK(check_same_tensors(place / from / "checkpoint/step-2", place / name / "checkpoint/step-2") > 60);
  };
  run_to(place, cut, "first", 2, flags);
  take_over("first", kTwo, "whole", kFourHeads);
  take_over("whole", cut, "cut", flags);
}

TEST_CASE("a run with expert parallelism resumes in other layouts, and so does the report of expert load") {
  const Place place(kTinyDeepSeek);
  run_to(place, kFour, "straight", 8);
  run_to(place, kFour, "changed", 4);
  run_to(place, kOne, "changed", 6);
  run_to(place, kTwo, "changed", 8);
  const auto straight = place.metrics("straight"), changed = place.metrics("changed");
  REQUIRE(changed.size() == 8);
  for (std::size_t step = 0; step < 8; ++step)
    check_close(straight[step]["loss"], changed[step]["loss"], 1e-4);

  const auto expected = lines_of(place / "straight/expert_load.jsonl");
  const auto loads = lines_of(place / "changed/expert_load.jsonl");
  REQUIRE(loads.size() == 5);
  const int steps[] = {1, 2, 4, 6, 8};
  for (std::size_t i = 0; i < 5; ++i) {
    INFO(loads[i]);
    const nlohmann::json line = nlohmann::json::parse(loads[i]);
    CHECK(line["step"] == steps[i]);
    if (steps[i] <= 4) CHECK(loads[i] == expected[i]);
    REQUIRE(line["tokens_per_expert"].size() == 2);  // the first of three layers is dense
    for (const char* router : {"layers.1.moe", "layers.2.moe"}) {
      const auto tokens = line["tokens_per_expert"][router].get<std::vector<int>>();
      CHECK(tokens.size() == 8);
      CHECK(std::accumulate(tokens.begin(), tokens.end(), 0) == 8 * 32 * 3);  // sequences x tokens x choices
    }
  }
}

}  // namespace
}  // namespace rondo

// Tests metrics.lag = 1: the numbers of a step are read after the next step has begun.
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/run/deepseek.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

// Only the last step is hashed, since a hashed step is read at once.
const Words kEight = {"--training.steps=8", "--debug.hash_every=8", "--debug.check_replicas_every=0",
                      "--validation.freq=3"};
const Words kLate = {"--metrics.lag=1"};

// Compares lines of metrics.jsonl without times, and the steps of validations in events.jsonl.
void check_same_lines(const Place& place, const std::string& at_once, const std::string& late) {
  INFO(late);
  const auto expected = place.metrics(at_once), actual = place.metrics(late);
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    for (const char* key :
         {"step", "loss", "grad_norm", "lr", "tokens_seen", "progress", "validation_loss", "state_hash",
          "dropped_tokens", "repeated_steps", "skipped_steps", "load_imbalance"}) {
      INFO("line " << i << ", " << key);
      CHECK(actual[i].value(key, nlohmann::json()) == expected[i].value(key, nlohmann::json()));
    }
  const auto validations = [&](const std::string& name) {
    std::vector<std::string> steps;
    for (const std::string& line : lines_of(place / name / "events.jsonl"))
      if (const auto event = nlohmann::json::parse(line); event["event"] == "validation")
        steps.push_back(event["step"].dump() + " " + event["loss"].dump());
    return steps;
  };
  CHECK(validations(late).size() == 4);
  CHECK(validations(late) == validations(at_once));
}

TEST_CASE("numbers that are read one step late are reported for their own steps, and no bit differs") {
  const Place place;
  for (const int ranks : {1, 2}) {
    const auto play = [&](const std::string& name, const Words& more) {
      place.play(ranks, fmt::format("{} {}", ranks, name),
                 kEight + more + Words{"--checkpoint.enable=true", "--checkpoint.interval=5"});
      return fmt::format("{} {}", ranks, name);
    };
    const std::string at_once = play("at once", {"--metrics.lag=0"}), late = play("late", kLate);
    check_same_lines(place, at_once, late);
    CHECK(place.metrics(late).back().contains("state_hash"));
    for (const char* saved : {"checkpoint/step-5/COMMITTED", "checkpoint/step-8/COMMITTED"})
      CHECK(std::filesystem::exists(place / late / saved));
  }
}

TEST_CASE("steps whose experts overflow are repeated or skipped in order, although the next has begun") {
  const Place place(kTinyDeepSeek);
  const Words tight = {"--parallelism.data_parallel_shard_degree=2", "--parallelism.expert_parallel_degree=2",
                       "--model.n_heads=4", "--parallelism.expert_capacity_factor=1.2"};
  const auto check = [&](const std::string& name, const char* counted, const Words& more) {
    place.play(2, name + " at once", kEight + tight + more);
    place.play(2, name + " late", kEight + tight + more + kLate);
    check_same_lines(place, name + " at once", name + " late");
    std::int64_t count = 0;
    for (const nlohmann::json& line : place.metrics(name + " late"))
      count += line[counted].get<std::int64_t>();
    CHECK(count > 0);
  };
  check("repeated", "repeated_steps", {"--training.global_batch_size=8"});
  check("skipped", "skipped_steps", {"--parallelism.expert_overflow=skip"});
}

TEST_CASE("a step that is not finite ends a run with 8 and is named, although the next has begun") {
  const Place place;
  const ProgramResult run =
      rondo(place.launch(2, "run", kLate + Words{"--debug.hash_every=0", "--optimizer.lr=1e18"}));
  INFO(run.output);
  CHECK(run.exit_code == 8);
  CHECK_THAT(run.output, ContainsSubstring("step 2: loss is not finite") &&
                             ContainsSubstring("parameters and optimizer state are as after step 1"));
  CHECK(place.metrics("run").size() == 2);
}

}  // namespace
}  // namespace rondo

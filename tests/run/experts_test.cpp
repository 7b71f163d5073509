// Tests expert parallelism with both exchanges: the ladder, the same numbers as 1 rank, and steps
// whose rows do not fit.
#include <catch2/generators/catch_generators.hpp>

#include "tests/run/deepseek.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

struct Division {
  int shard, tensor, experts;
  int ranks() const { return shard * tensor; }
  std::string name() const { return fmt::format("shard {}, tensor {}, experts {}", shard, tensor, experts); }
  Words flags(const std::string& exchange) const {
    return {fmt::format("--parallelism.data_parallel_shard_degree={}", shard),
            fmt::format("--parallelism.tensor_parallel_degree={}", tensor),
            fmt::format("--parallelism.expert_parallel_degree={}", experts),
            "--parallelism.expert_parallel_comm_backend=" + exchange, "--model.n_heads=4"};
  }
};
const std::vector<Division> kDivisions = {{4, 1, 2}, {2, 1, 2}, {2, 2, 2}, {4, 1, 4}};

void climb_experts(const Point& point, const Division& division, const std::string& exchange) {
  INFO(division.name() << ", " << exchange);
  climb_deepseek(point, division.flags(exchange));
}

TEST_CASE("expert parallelism that gathers tokens has the same bits eager, interpreted and replayed") {
  climb_experts({4, false, true, true, false}, {4, 1, 2}, "static");
  climb_experts({4, true, false, false, false}, {2, 2, 2}, "static");
}

TEST_CASE("expert parallelism that exchanges its sums in bf16 has the same bits in every executor") {
  climb_deepseek({2, true, false, false, false},
                 Division{2, 1, 2}.flags("static") + Words{"--parallelism.expert_parallel_combine=alltoall"});
}

TEST_CASE("expert parallelism that sends rows has the same bits eager, interpreted and replayed") {
  climb_experts({2, false, true, false, true}, {2, 1, 2}, "standard");
  climb_experts({4, true, false, false, false}, {4, 1, 4}, "standard");
}

TEST_CASE("with expert parallelism every policy and every list of passes has the bits of the eager step") {
  const std::string exchange = GENERATE(as<std::string>{}, "static", "standard");
  INFO(exchange);
  const Place place(kTinyDeepSeek);
  const Point point{2, true, false, false, false};
  const Words flags = Division{2, 1, 2}.flags(exchange);
  run_at(place, point, "eager", kEager + flags);
  run_at(place, point, "eager by op", kEager + flags + Words{"--activation_checkpoint.mode=selective"});
  check_equal(place, "eager", "eager by op");
  for (const char* policy : {"default", "full"}) {
    run_at(place, point, policy, kReplay + flags + Words{fmt::format("--compile.memory_policy={}", policy)});
    check_equal(place, "eager", policy);
  }
  run_at(place, point, "no passes", flags + Words{"--compile.passes=[]"});
  check_equal(place, "eager", "no passes");
  // A capacity that is never exceeded changes nothing either.
  run_at(place, point, "bounded", flags + Words{"--parallelism.expert_capacity_factor=1.9"});
  check_equal(place, "eager", "bounded");
}

TEST_CASE("expert parallelism has the loss and gradient norm of 1 rank, with both exchanges") {
  const Place place(kTinyDeepSeek);
  const auto run_on = [&](const Division& division, const std::string& exchange, const std::string& name) {
    place.play(division.ranks(), name,
               division.flags(exchange) +
                   Words{"--training.global_batch_size=8",
                         fmt::format("--training.local_batch_size={}", 8 / division.shard),
                         "--training.steps=2", "--lr_scheduler.warmup_steps=0", "--validation.enable=false"});
  };
  run_on({1, 1, 1}, "static", "one");
  for (const Division& division : kDivisions)
    for (const std::string exchange : {"static", "standard"}) {
      const std::string name = division.name() + ", " + exchange;
      run_on(division, exchange, name);
      const ProgramResult compared = place.compare("one", name, {"--tolerance", "1e-6"});
      INFO(name << ":\n" << compared.output);
      CHECK(compared.exit_code == 0);
    }
}

// Room for slightly more rows than balanced routers send, so that some steps overflow.
const Words kTight = {"--parallelism.expert_capacity_factor=1.1"};

std::int64_t sum_of(const std::vector<nlohmann::json>& lines, const std::string& key) {
  std::int64_t sum = 0;
  for (const nlohmann::json& line : lines) sum += line.at(key).get<std::int64_t>();
  return sum;
}

void check_some_are_repeated(const Place& place, const std::string& name) {
  INFO(name);
  const auto lines = place.metrics(name);
  const std::int64_t repeated = sum_of(lines, "repeated_steps");
  CHECK((0 < repeated && repeated < std::ssize(lines)));
  CHECK(sum_of(lines, "dropped_tokens") > 0);
  CHECK(sum_of(lines, "skipped_steps") == 0);
}

TEST_CASE("steps whose experts overflow are repeated, with the bits of a run with room for all rows") {
  const Place place(kTinyDeepSeek);
  const Point point{2, true, false, false, false};
  const auto run = [&](const std::string& exchange, const std::string& name, const Words& more) {
    run_at(place, point, name, Division{2, 1, 2}.flags(exchange) + more);
  };
  run("static", "gathered, roomy", {});
  run("static", "gathered, replayed", kTight + Words{"--compile.memory_policy=default"});
  run("static", "gathered, eager", kTight + kEager);
  run("standard", "sent, roomy", kReplay);
  run("standard", "sent, interpreted", kTight + kInterpreter);
  check_equal(place, "gathered, roomy", "gathered, replayed");
  check_equal(place, "gathered, roomy", "gathered, eager");
  check_equal(place, "sent, roomy", "sent, interpreted");
  for (const std::string name : {"gathered, replayed", "gathered, eager", "sent, interpreted"})
    check_some_are_repeated(place, name);
  CHECK_FALSE(place.metrics("gathered, roomy")[0].contains("dropped_tokens"));
}

TEST_CASE("microbatches are repeated together, and a run that resumes among repeats has the same bits") {
  const Place place(kTinyDeepSeek);
  const Words flags =
      Division{2, 1, 2}.flags("static") + Words{"--training.global_batch_size=8", "--validation.enable=false",
                                                // A repeat ends with `update`, other steps with
                                                // `last`.
                                                "--parallelism.fsdp_gradient_sync=step",
                                                "--checkpoint.enable=true", "--lr_scheduler.total_steps=8"};
  const auto run = [&](const std::string& name, int steps, const Words& more) {
    place.play(2, name, flags + more + Words{fmt::format("--training.steps={}", steps)});
  };
  const Words tight = {"--parallelism.expert_capacity_factor=1.2"};
  run("roomy", 8, {});
  run("straight", 8, tight);
  run("resumed", 4, tight);
  run("resumed", 8, tight);
  check_some_are_repeated(place, "straight");
  const auto roomy = place.metrics("roomy"), straight = place.metrics("straight"),
             resumed = place.metrics("resumed");
  REQUIRE(resumed.size() == 8);
  for (std::size_t step = 0; step < 8; ++step) {
    CHECK(straight[step]["loss"] == roomy[step]["loss"]);
    CHECK(straight[step]["grad_norm"] == roomy[step]["grad_norm"]);
    for (const char* key : {"state_hash", "dropped_tokens", "repeated_steps"})
      CHECK(straight[step][key] == resumed[step][key]);
  }
}

TEST_CASE("dropped tokens are counted, and the run continues without them") {
  const Place place(kTinyDeepSeek);
  const Words flags = Division{2, 1, 2}.flags("static") + kTight;
  const auto run = [&](const std::string& name, const Words& more) {
    const ProgramResult result =
        place.play(2, name, flags + more + Words{"--training.steps=8", "--metrics.log_freq=8"});
    return result.output;
  };
  const Words drop = {"--parallelism.expert_overflow=drop"};
  const std::string output = run("replay", drop);
  run("eager", drop + kEager);
  run("repeated", {});
  const auto dropping = place.metrics("replay"), eager = place.metrics("eager");
  const std::int64_t dropped = sum_of(dropping, "dropped_tokens");
  CHECK(dropped > 0);
  CHECK(sum_of(dropping, "repeated_steps") + sum_of(dropping, "skipped_steps") == 0);
  CHECK_THAT(output, ContainsSubstring("for a step with more, parallelism.expert_overflow = \"drop\""));
  const std::int64_t after_first = dropped - dropping[0]["dropped_tokens"].get<std::int64_t>();
  CHECK_THAT(output, ContainsSubstring(fmt::format("dropped_tokens: {}  repeated_steps: 0  skipped_steps: 0",
                                                   after_first)));
  for (std::size_t step = 0; step < 8; ++step)
    CHECK(dropping[step]["state_hash"] == eager[step]["state_hash"]);
  CHECK(dropping[7]["state_hash"] != place.metrics("repeated")[7]["state_hash"]);
}

TEST_CASE("a skipped step changes nothing, and ten consecutive ones end the run with 8 and what to set") {
  const Place place(kTinyDeepSeek);
  const Words flags = {"--training.steps=12", "--lr_scheduler.warmup_steps=0",
                       "--parallelism.expert_capacity_factor=0.5", "--parallelism.expert_overflow=skip"};
  const auto untouched = [&](const std::string& name, const std::string& exchange, const Words& more) {
    const ProgramResult run = rondo(place.launch(2, name, Division{2, 1, 2}.flags(exchange) + flags + more));
    INFO(run.output);
    CHECK(run.exit_code == 8);
    CHECK_THAT(run.output, ContainsSubstring("rows of tokens did not fit on the ranks of their experts; the "
                                             "step is skipped, as were the 9 before it; parameters and "
                                             "optimizer state are as after step 0. Raise "
                                             "parallelism.expert_capacity_factor = 0.5, set it to 0"));
    const auto lines = place.metrics(name);
    REQUIRE(lines.size() == 10);
    CHECK(sum_of(lines, "skipped_steps") == 10);
    for (const nlohmann::json& line : lines) CHECK(line["state_hash"] == lines[0]["state_hash"]);
    return lines[0]["state_hash"];
  };
  // Different gradients and the same state: no update was applied.
  const auto hash = untouched("gathered", "static", {});
  CHECK(untouched("sent", "standard", {"--training.shuffle=false"}) == hash);
  // The state includes sums over microbatches.
  const Words two = {"--training.global_batch_size=8"};
  CHECK(untouched("two microbatches", "static", two) ==
        untouched("two other microbatches", "standard", two + Words{"--training.shuffle=false"}));
}

TEST_CASE("the log reports the exchange of a run and its room for rows") {
  const Place place(kTinyDeepSeek);
  const Words one_step = {"--training.steps=1", "--lr_scheduler.warmup_steps=0"};
  const ProgramResult run = place.play(2, "run", Division{2, 1, 2}.flags("static") + one_step);
  CHECK_THAT(run.output,
             ContainsSubstring(
                 "experts: 8 on 2 ranks; \"static\" gathers the tokens of all ranks; a rank has "
                 "room for 384 rows of a layer, 0.1 MiB, where balanced routers send 192; no step has more"));
}

}  // namespace
}  // namespace rondo

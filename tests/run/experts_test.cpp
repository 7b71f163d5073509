// Ranks that share experts (expert parallelism), by both exchanges: the ladder, the same numbers as 1 rank,
// and what happens when rows have no room.
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

TEST_CASE(
    "ranks that gather the tokens of shared experts have the same bits eager, interpreted and replayed") {
  climb_experts({4, false, true, true, false}, {4, 1, 2}, "static");
  climb_experts({4, true, false, false, false}, {2, 2, 2}, "static");
}

TEST_CASE("ranks that send rows to shared experts have the same bits eager, interpreted and replayed") {
  climb_experts({2, false, true, false, true}, {2, 1, 2}, "standard");
  climb_experts({4, true, false, false, false}, {4, 1, 4}, "standard");
}

TEST_CASE(
    "of ranks that share experts every policy and every list of passes has the bits of the eager step") {
  const std::string exchange = GENERATE(as<std::string>{}, "static", "standard");
  INFO(exchange);
  const Place place(kTinyDeepSeek);
  const Point point{2, true, false, false, false};
  const Words flags = Division{2, 1, 2}.flags(exchange);
  run_at(place, point, "eager", kEager + flags);
  for (const char* policy : {"default", "full"}) {
    run_at(place, point, policy, kReplay + flags + Words{fmt::format("--compile.memory_policy={}", policy)});
    check_equal(place, "eager", policy);
  }
  run_at(place, point, "no passes", flags + Words{"--compile.passes=[]"});
  check_equal(place, "eager", "no passes");
  // Room that is never used up changes nothing either.
  run_at(place, point, "bounded", flags + Words{"--parallelism.expert_capacity_factor=1.9"});
  check_equal(place, "eager", "bounded");
}

TEST_CASE("ranks that share experts have the loss and gradient norm of 1 rank, by either exchange") {
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

TEST_CASE("a step whose rows have no room changes nothing, and the run ends with 8 and what to set") {
  const Place place(kTinyDeepSeek);
  const Division division{2, 1, 2};
  const Words flags = {"--training.steps=3", "--lr_scheduler.warmup_steps=0"};
  const Words tight = {"--parallelism.expert_capacity_factor=0.5"};
  place.play(2, "roomy", division.flags("static") + flags);
  const auto ends = [&](const std::string& name, const std::string& exchange, const Words& more) {
    const ProgramResult run = rondo(place.launch(2, name, division.flags(exchange) + flags + tight + more));
    INFO(run.output);
    CHECK(run.exit_code == 8);
    CHECK_THAT(
        run.output,
        ContainsSubstring("step 1: ") &&
            ContainsSubstring("rows of tokens found no room on the ranks of their experts; parameters and "
                              "optimizer state are as after step 0. Raise "
                              "parallelism.expert_capacity_factor = 0.5, or set it to 0"));
    REQUIRE(place.metrics(name).size() == 1);
    return place.metrics(name)[0]["state_hash"];
  };
  // Other gradients, the same state: none of them was taken.
  const auto untouched = ends("gathered", "static", {});
  CHECK(ends("sent", "standard", {}) == untouched);
  CHECK(ends("other samples", "standard", {"--training.shuffle=false"}) == untouched);
  // With sums of microbatches among the state.
  const Words two = {"--training.global_batch_size=8"};
  CHECK(ends("two microbatches", "static", two) ==
        ends("two other microbatches", "standard", two + Words{"--training.shuffle=false"}));
  CHECK(place.metrics("roomy")[0]["state_hash"] != untouched);
}

TEST_CASE("the log says which exchange a run has, and room for how many rows") {
  const Place place(kTinyDeepSeek);
  const Words one_step = {"--training.steps=1", "--lr_scheduler.warmup_steps=0"};
  const ProgramResult run = place.play(2, "run", Division{2, 1, 2}.flags("static") + one_step);
  CHECK_THAT(
      run.output,
      ContainsSubstring("experts: 8 on 2 ranks; \"static\" gathers the tokens of all of them; a rank has "
                        "room for 384 rows of a layer, 0.1 MiB, where balanced routers send 192: all that "
                        "can come"));
}

}  // namespace
}  // namespace rondo

// Every schedule is proven in many shapes and has the time and memory of its paper.
#include "parallel/pipeline/schedules.h"

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "parallel/pipeline/csv.h"
#include "parallel/pipeline/lower.h"
#include "parallel/pipeline/prove.h"
#include "parallel/pipeline/simulate.h"
#include "tests/parallel/pipeline/programs.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::pipeline {
namespace {

Times times_of(double forward, double input, double weight) { return {{{forward, input, weight}}, {0}}; }

struct Simulated {
  Program program;
  Proof proof;
  Timeline timeline;
};
Simulated simulated(const std::string& name, const PipelineShape& shape, const Times& times = {}) {
  Simulated result{lower(make_program(schedule_named(name), shape)), {}, {}};
  result.proof = prove(result.program);
  result.timeline = simulate(result.program, times, false);
  return result;
}

TEST_CASE("every schedule is proven in every shape, with buffers and without") {
  for_each_schedule([](const Schedule& schedule, const PipelineShape& shape) {
    INFO(name_of(schedule, shape));
    const Program lowered = lower(make_program(schedule, shape));
    const Proof proof = prove(lowered);
    CHECK(find_deadlock(lowered, Buffers::unlimited) == "");
    // An F and a backward for each stage and microbatch, and one reduction per stage.
    CHECK(proof.actions >= std::int64_t{2} * shape.stages() * shape.microbatches + shape.stages());
    // Each rank runs all its actions.
    const Timeline timeline = simulate(lowered, {}, false);
    for (const double busy : timeline.busy) CHECK(busy == 3.0 * shape.stages_per_rank * shape.microbatches);
  });
}

TEST_CASE("each forward but the first of one stage runs with the backward of the microbatch before") {
  for (const std::int32_t microbatches : {1, 2, 7}) {
    const Proven proven = lower_and_prove(overlapped(microbatches));
    const std::vector<Action>& actions = proven.lowered.ranks[0];
    CHECK(std::count_if(actions.begin(), actions.end(), [](const Action& a) { return a.with_next; }) ==
          microbatches - 1);
    CHECK(proven.proof.messages == 0);
    CHECK(proven.proof.in_flight.of_stage[0] == std::min(microbatches, 2));
  }
}

TEST_CASE("stages are placed in loops, or in a V whose ends share rank 0") {
  CHECK(make_program(schedule_named("Interleaved1F1B"), {3, 2, 3}).rank_of_stage ==
        std::vector<std::int32_t>{0, 1, 2, 0, 1, 2});
  CHECK(make_program(schedule_named("ZBVZeroBubble"), {3, 2, 6}).rank_of_stage ==
        std::vector<std::int32_t>{0, 1, 2, 2, 1, 0});
}

TEST_CASE("adjacent stages on one rank send nothing, and every other pair has two messages per microbatch") {
  CHECK(simulated("1F1B", {4, 1, 8}).proof.messages == 2 * 3 * 8);
  CHECK(simulated("Interleaved1F1B", {4, 2, 8}).proof.messages == 2 * 7 * 8);
  CHECK(simulated("ZBVZeroBubble", {4, 2, 8}).proof.messages == 2 * 6 * 8);
  CHECK(simulated("1F1B", {1, 1, 8}).proof.messages == 0);
  const std::vector<Edge> edges = simulated("Interleaved1F1B", {3, 2, 3}).proof.edges;
  std::map<std::pair<int, int>, std::int64_t> messages;
  for (const Edge& edge : edges) messages[{edge.from, edge.to}] = edge.messages;
  CHECK(messages == std::map<std::pair<int, int>, std::int64_t>{
                        {{0, 1}, 6}, {{1, 0}, 6}, {{1, 2}, 6}, {{2, 1}, 6}, {{2, 0}, 3}, {{0, 2}, 3}});
}

// The idle time of a rank, in units of time, from the papers.
TEST_CASE("the bubbles equal those of the papers within half a percent") {
  const double f = 1, i = 1.2, w = 0.9;
  for (const auto& [p, m] :
       std::vector<std::pair<int, int>>{{2, 4}, {4, 8}, {4, 16}, {8, 16}, {8, 32}, {16, 64}}) {
    const auto bubble = [&, p = p, m = m](const std::string& name, int stages, const Times& times) {
      const Timeline timeline = simulated(name, {p, stages, m}, times).timeline;
      return timeline.end - timeline.busy[0];
    };
    const auto within = [](double value) { return Catch::Approx(value).epsilon(0.005).margin(1e-9); };
    INFO(p << " ranks, " << m << " microbatches");
    CHECK(bubble("GPipe", 1, times_of(f, i, w)) == within((p - 1) * (f + i + w)));
    CHECK(bubble("1F1B", 1, times_of(f, i, w)) == within((p - 1) * (f + i + w)));
    // Times are per stage. A rank has several stages, and its bubble is that of one stage.
    for (const int stages : {2, 4})
      CHECK(bubble("Interleaved1F1B", stages, times_of(f, i, w)) == within((p - 1) * (f + i + w)));
    for (const int stages : {1, 2, 4})
      CHECK(bubble("InterleavedZeroBubble", stages, times_of(1, 1, 1)) == within((p - 1) * 1));
    CHECK(bubble("ZBVZeroBubble", 2, times_of(1, 1, 1)) == within(p - 1));  // from the ends of the step alone
    CHECK(simulated("ZBVZeroBubble", {p, 2, m}).timeline.inner_bubble_share() ==
          Catch::Approx(0).margin(1e-9));
    CHECK(bubble("DualPipeV", 2, times_of(1, 1, 1)) == within((p - 1) * (3 + 2 - 3)));
  }
}

TEST_CASE("overlap of a forward and a backward shortens DualPipeV's step") {
  Times times = times_of(1, 1, 1);
  const double apart = simulated("DualPipeV", {4, 2, 16}, times).timeline.end;
  times.stages[0].overlap = 0.8;
  CHECK(simulated("DualPipeV", {4, 2, 16}, times).timeline.end < 0.85 * apart);
  CHECK(simulated("1F1B", {4, 1, 16}, times).timeline.end == simulated("1F1B", {4, 1, 16}).timeline.end);
}

TEST_CASE("the shares of bubbles for equal F, I and W") {
  const auto share = [](const std::string& name, const PipelineShape& shape) {
    return fmt::format("{:.1f}", 100 * simulated(name, shape).timeline.bubble_share());
  };
  CHECK(share("1F1B", {4, 1, 8}) == "27.3");
  CHECK(share("Interleaved1F1B", {4, 2, 8}) == "15.8");
  CHECK(share("Interleaved1F1B", {4, 4, 8}) == "8.6");
  CHECK(share("InterleavedZeroBubble", {4, 1, 8}) == "11.1");
  CHECK(share("DualPipeV", {4, 2, 8}) == "11.1");
  CHECK(share("1F1B", {16, 1, 64}) == "19.0");
  CHECK(share("Interleaved1F1B", {16, 4, 64}) == "5.5");
}

TEST_CASE("activations in flight equal those of the papers") {
  for (const int p : {2, 4, 8})
    for (const int m : {2 * p, 4 * p}) {
      const auto most = [&](const std::string& name, int stages) {
        const std::vector<std::int32_t> of_rank = simulated(name, {p, stages, m}).proof.in_flight.of_rank;
        return *std::max_element(of_rank.begin(), of_rank.end());
      };
      INFO(p << " ranks, " << m << " microbatches");
      CHECK(most("GPipe", 1) == m);
      CHECK(most("1F1B", 1) == p);
      for (const int stages : {2, 4}) CHECK(most("Interleaved1F1B", stages) == p * stages + p - 1);
      for (const int stages : {1, 2}) CHECK(most("InterleavedZeroBubble", stages) == p * stages);
      CHECK(most("ZBVZeroBubble", 2) == 2 * p);
      CHECK(most("DualPipeV", 2) == 2 * p + 1);
    }
  CHECK(simulated("1F1B", {4, 1, 8}).proof.in_flight.of_rank == std::vector<std::int32_t>{4, 3, 2, 1});
  CHECK(simulated("1F1B", {4, 1, 8}).proof.in_flight.of_stage == std::vector<std::int32_t>{4, 3, 2, 1});
}

TEST_CASE("a message delays its reader, and messages of one edge are serial") {
  Times times;
  times.messages = {0.5};
  // One microbatch passes every stage and every edge, forward and backward.
  CHECK(simulated("1F1B", {4, 1, 1}, times).timeline.end == Catch::Approx(4 * 3 + 6 * 0.5));
  // Forward and backward once; all other messages overlap compute.
  CHECK(simulated("GPipe", {4, 1, 8}, times).timeline.end == Catch::Approx((8 + 3) * 3 + 6 * 0.5));
  times.messages = {10};
  // Two forwards leave rank 0 at 1 and 2; the second one waits for the edge, and arrives 10 after
  // the first.
  const Simulated two = simulated("GPipe", {2, 1, 2}, times);
  CHECK(two.timeline.first[1] == 11);
  CHECK(two.timeline.last[1] == 21 + 1 + 2 + 2);
  // F of four stages, I of three and W of one before the last I and W; the turn of a V has no
  // message.
  times.messages = {1};
  CHECK(simulated("ZBVZeroBubble", {2, 2, 1}, times).timeline.end == Catch::Approx(4 + 3 + 1 + 2 + 4 * 1));
}

TEST_CASE("weights are gathered once, at UNSHARD or before the first compute, and again after RESHARD") {
  const auto time = [](const char* csv) {
    Times times = times_of(1, 1, 1);
    times.stages[0].unshard = 10;
    return simulate(lower(read_csv(csv, "test")), times, false).end;
  };
  CHECK(time("0F0,0B0,0F1,0B1") == 16);
  CHECK(time("0UNSHARD,0F0,0B0,0F1,0B1") == 16);
  CHECK(time("0UNSHARD,0F0,0B0,0RESHARD,0F1,0B1") == 26);
  CHECK(time("0F0,0B0,0F1,0B1,0RESHARD") == 16);
}

TEST_CASE("times may differ by stage") {
  Times times{{{1, 1, 1}, {2, 2, 2}}, {0}};
  const Timeline timeline = simulated("1F1B", {2, 1, 4}, times).timeline;
  CHECK(timeline.busy == std::vector<double>{12, 24});
  CHECK(timeline.end == 1 + 24 + 2);  // the slower rank has bubbles only at its ends
}

TEST_CASE("an unsupported shape is refused with flag, value and rule") {
  const auto error = [](const std::string& name, const PipelineShape& shape) {
    return error_of([&] { make_program(schedule_named(name), shape); });
  };
  CHECK(error("1F1B", {4, 2, 8}) == "2: pipeline: --stages-per-rank \"2\" must be 1 with 1F1B");
  CHECK(error("Interleaved1F1B", {4, 1, 8}) ==
        "2: pipeline: --stages-per-rank \"1\" must be at least 2 with Interleaved1F1B");
  CHECK(error("ZBVZeroBubble", {4, 3, 8}) ==
        "2: pipeline: --stages-per-rank \"3\" must be 2 with ZBVZeroBubble");
  CHECK(error("Interleaved1F1B", {4, 2, 13}) ==
        "2: pipeline: --microbatches \"13\" must be a multiple of 3, the rounds of Interleaved1F1B on 4 "
        "ranks, such as 12");
  CHECK(error("DualPipeV", {4, 2, 7}) ==
        "2: pipeline: --microbatches \"7\" must be at least the number of stages, 8, with DualPipeV");
  CHECK(error("Interleaved1F1B", {1024, 128, 1024}) ==
        "2: pipeline: --stages-per-rank \"128\" must give at most 65535 stages on 1024 ranks");
  CHECK(
      error("1F1B", {4, 1, 10'000'000}) ==
      "2: pipeline: --microbatches \"10000000\" must be at most 5592405 with 4 stages: a program has at most "
      "67108864 actions");
  CHECK(error("interleaved1f2b", {4, 2, 8}) ==
        "2: pipeline: unknown schedule \"interleaved1f2b\" (did you mean Interleaved1F1B?); `rondo pipeline "
        "--help` lists them");
  CHECK(schedule_named("interleaved1f1b").name == "Interleaved1F1B");  // as in torch
}

// Removes W and turns B into I. A limit keeps the order of these actions.
std::vector<Action> without_weights(std::vector<Action> actions) {
  std::erase_if(actions, [](const Action& a) { return a.type == ActionType::backward_weight; });
  for (Action& action : actions)
    if (action.type == ActionType::backward) action.type = ActionType::backward_input;
  return actions;
}

TEST_CASE("a limit of pending microbatches holds in every schedule, and moves only W") {
  for_each_schedule([](const Schedule& schedule, const PipelineShape& shape) {
    const Program whole = make_program(schedule, shape);
    const InFlight in_flight = check(whole, Form::compute);
    const std::int32_t natural =
        *std::max_element(in_flight.pending_of_stage.begin(), in_flight.pending_of_stage.end());
    if (natural == 0) return;
    double last_end = 0;
    for (std::int32_t most = natural; most >= 0; --most) {
      INFO(name_of(schedule, shape) << ", at most " << most);
      const Program limited = limit_pending(whole, most);
      if (most == natural) CHECK(limited.ranks == whole.ranks);
      const Program lowered = lower(limited);
      const Proof proof = prove(lowered);
      for (std::int32_t stage = 0; stage < shape.stages(); ++stage) {
        CHECK(proof.in_flight.pending_of_stage[stage] == std::min(most, in_flight.pending_of_stage[stage]));
        CHECK(proof.in_flight.of_stage[stage] <= in_flight.of_stage[stage]);
      }
      for (std::size_t rank = 0; rank < whole.ranks.size(); ++rank)
        CHECK(without_weights(limited.ranks[rank]) == without_weights(whole.ranks[rank]));
      // A program with messages gets the same limit.
      CHECK(prove(limit_pending(lower(whole), most)).in_flight.pending_of_stage ==
            proof.in_flight.pending_of_stage);
      const double end = simulate(lowered, {}, false).end;
      CHECK(end >= last_end);
      last_end = end;
    }
  });
}

TEST_CASE("InterleavedZeroBubble without pending microbatches is 1F1B") {
  const Program limited = limit_pending(make_program(schedule_named("InterleavedZeroBubble"), {4, 1, 8}), 0);
  CHECK(limited.ranks == make_program(schedule_named("1F1B"), {4, 1, 8}).ranks);
}

TEST_CASE("a limit of pending microbatches that cannot hold is refused") {
  const auto refused = [](const char* csv) {
    return error_of([&] { limit_pending(read_csv(csv, "s.csv"), 1); });
  };
  CHECK(refused("0F0,0B0") ==
        "3: no backward of the schedule is divided into I and W, so that no W can be pending; remove the "
        "limit, or use InterleavedZeroBubble, ZBVZeroBubble or DualPipeV");
  CHECK(refused("0F0,0F1,0I1,0I0,0W0,0W1") ==
        "3: 0W1 would have to come before the I of microbatch 0; put I into the order of microbatches, or "
        "allow more pending microbatches");
  CHECK(refused("0F0,0I0,0W0,0W0") ==
        "3: rank 0, action 3 (0W0) is a second backward of its microbatch; each "
        "microbatch passes each stage once, forward and backward");
}

}  // namespace
}  // namespace rondo::pipeline

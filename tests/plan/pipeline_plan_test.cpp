// Plans of pipelines: times against the formulas of schedules, memory against the functions of
// each rank.
#include "plan/pipeline_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "config/load.h"
#include "plan/plan.h"
#include "plan/search.h"
#include "plan/way_plans.h"
#include "trainer/step/from_config.h"

namespace rondo {
namespace {

using Catch::Approx;

constexpr std::int64_t kRanks = 4, kMicrobatches = 8;

JobConfig job(const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"--model.flavor=debugmodel",
                                    "--model.n_layers=8",
                                    "--training.seq_len=128",
                                    "--training.local_batch_size=8",
                                    "--validation.enable=false",
                                    "--parallelism.pipeline_parallel_degree=4",
                                    "--parallelism.pipeline_parallel_layout=Et*2|(tt|)*2t*2L"};
  words.insert(words.end(), more.begin(), more.end());
  return load_config(words);
}

struct Ranks {
  explicit Ranks(const JobConfig& job, std::int64_t world = kRanks)
      : config(job),
        layout(resolve_layout(job, world)),
        model(make_decoder(job.model.name, job.model.sizes)) {}
  PipelineRanks compiled() const { return {config, layout, 0, model, request}; }

  JobConfig config;
  Layout layout;
  std::shared_ptr<const Decoder> model;
  CompileRequest request = compile_request(config, TargetDevice::cpu, {});
};

// Estimates 1 s for a forward, and the given seconds for a whole backward, the gathers, the update,
// and a pair of forward and backward.
PipelinePlan plan_of(const Ranks& job, double backward, double unshard, double update, double message,
                     double together = 0) {
  PipelineRanks ranks = job.compiled();
  const auto seconds = [&](const CompiledStep& step) {
    const std::string& name = step.function().name;
    ir::StepEstimate result;
    result.step_s = name.find("_with_") != name.npos     ? together
                    : name.ends_with(".forward")         ? 1
                    : name.ends_with(".unshard_forward") ? 1 + unshard
                    : name.ends_with(".last_backward")   ? backward
                    : name.ends_with(".backward")        ? backward
                    : name.ends_with(".backward_input")  ? backward / 2
                    : name.ends_with(".backward_weight") ? backward / 2
                    : name.ends_with(".unshard")         ? unshard
                                                         : update;
    return result;
  };
  return plan_pipeline(ranks, "test", seconds, [&](double, std::int64_t, std::int64_t) { return message; });
}

TEST_CASE("a step of equal stages takes the time of the papers plus its update") {
  const Ranks ranks(job());
  const PipelinePlan plain = plan_of(ranks, 2, 0, 0.5, 0);
  CHECK(plain.step_s() == Approx((kMicrobatches + kRanks - 1) * 3 + 0.5));
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    CHECK(plain.computes[rank].step_s == Approx(kMicrobatches * 3 + 0.5));
    CHECK(plain.bubble_s(rank) == Approx((kRanks - 1) * 3));
  }
  CHECK(plain.bubble_share() == Approx((kRanks - 1) * 3 / plain.step_s()));

  // A stage gathers while its first microbatch is in flight; messages take time forward
  // and backward.
  CHECK(plan_of(ranks, 2, 0.25, 0.5, 0).step_s() == Approx(plain.step_s() + 0.25));
  CHECK(plan_of(ranks, 2, 0, 0.5, 0.125).step_s() > plain.step_s() + 2 * (kRanks - 1) * 0.125 - 1e-9);

  const Ranks halves(job({"--parallelism.pipeline_parallel_layout=Et|(t|)*6tL",
                          "--parallelism.pipeline_parallel_schedule=Interleaved1F1B"}));
  CHECK(plan_of(halves, 2, 0, 0, 0).step_s() == Approx((2 * kMicrobatches + kRanks - 1) * 3));
  const Ranks divided(job({"--parallelism.pipeline_parallel_schedule=InterleavedZeroBubble",
                           "--parallelism.pipeline_parallel_layout=Et*2|(tt|)*2t*2L"}));
  CHECK(plan_of(divided, 2, 0, 0, 0).step_s() < plan_of(ranks, 2, 0, 0, 0).step_s());
}

TEST_CASE("a merged forward and backward takes the time of its own graph") {
  std::vector<std::string> dual = {"--parallelism.pipeline_parallel_schedule=DualPipeV",
                                   "--parallelism.pipeline_parallel_layout=Et|(t|)*6tL"};
  const Ranks together(job(dual));
  dual.emplace_back("--parallelism.pipeline_parallel_expert_parallel_overlap=false");
  const Ranks apart(job(dual));
  const PipelinePlan in_turn = plan_of(apart, 2, 0, 0, 0);
  for (const double seconds : {1.0, 1.75}) {
    const PipelinePlan plan = plan_of(together, 2, 0, 0, 0, seconds);
    pipeline::Times times = in_turn.times;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      double computes = in_turn.computes[rank].step_s;
      const auto& actions = plan.layout.program.ranks[rank];
      for (std::size_t i = 0; i < actions.size(); ++i) {
        if (!actions[i].with_next) continue;
        const pipeline::Action &forward = actions[i], &backward = actions[i + 1];
        computes -= times.of(forward.stage).forward + times.of(backward.stage).of(backward.type) - seconds;
        times.pairs[{forward.stage, backward.stage}] = seconds;
      }
      CHECK(plan.computes[rank].step_s == Approx(computes));
      CHECK(plan.computes[rank].step_s < in_turn.computes[rank].step_s);
    }
    CHECK(plan.step_s() == Approx(pipeline::simulate(plan.layout.program, times, false).end));
    CHECK(plan.step_s() < in_turn.step_s());
  }
}

// Returns the plan of a step of eight sequences a rank, on two nodes.
JobPlan plan_of_experts(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"--model.name=deepseek_v3",
                                    "--model.flavor=16B",
                                    "--model.n_layers=4",
                                    "--training.seq_len=4096",
                                    "--training.global_batch_size=128",
                                    "--activation_checkpoint.mode=full",
                                    "--parallelism.expert_parallel_degree=16"};
  words.insert(words.end(), flags.begin(), flags.end());
  return plan_job(load_config(words, TargetDevice::cuda), 16, 0, *ir::find_device_model("h100"));
}
const std::string kSequences = "--training.local_batch_size=";
const std::string kOverlapped = "--parallelism.overlapped_microbatches=";

TEST_CASE("exchanges of experts hide behind other microbatches") {
  const auto exposed_s = [](const JobPlan& plan) {
    double seconds = 0;
    for (const auto& [key, totals] : plan.step.collectives)
      if (key.second == "ep") seconds += totals.exposed_s;
    return seconds;
  };
  const JobPlan in_turn = plan_of_experts({kSequences + "2"}),
                overlapped = plan_of_experts({kSequences + "8", kOverlapped + "4"});
  CHECK(exposed_s(overlapped) < 0.55 * exposed_s(in_turn));
  CHECK(overlapped.tokens_per_s() > 1.02 * in_turn.tokens_per_s());
}

TEST_CASE("overlapped microbatches gather weights once a step if they are kept") {
  const auto gathered = [](const JobPlan& plan) {
    double bytes = 0;
    for (const auto& [key, totals] : plan.step.collectives)
      if (key.first == ir::CollectiveKind::all_gather && key.second != "ep") bytes += totals.bytes;
    return bytes;
  };
  const JobPlan in_turn = plan_of_experts({kSequences + "2"}),
                overlapped = plan_of_experts(
                    {kSequences + "8", kOverlapped + "4", "--parallelism.fsdp_reshard_after_forward=never"});
  CHECK(gathered(overlapped) < 0.2 * gathered(in_turn));
  CHECK(overlapped.memory.total_bytes() > in_turn.memory.total_bytes());
}

TEST_CASE("ranks with equal stages are compiled once, and have the memory of their own functions") {
  const char* schedule = GENERATE("1F1B", "ZBVZeroBubble", "DualPipeV", "Interleaved1F1B");
  const bool two = std::string(schedule) != "1F1B";
  const Ranks ranks(job(
      {"--parallelism.pipeline_parallel_schedule=" + std::string(schedule),
       "--parallelism.pipeline_parallel_layout=" + std::string(two ? "Et|(t|)*6tL" : "Et*2|(tt|)*2t*2L")}));
  PipelineRanks compiled = ranks.compiled();
  INFO(schedule);
  const bool in_a_v = std::string(schedule) == "ZBVZeroBubble" || std::string(schedule) == "DualPipeV";
  CHECK(compiled.kinds().size() == (in_a_v ? 2 : 3));
  for (std::int64_t rank = 0; rank < kRanks; ++rank)
    CHECK(planned_memory(compiled.of(rank)).input_bytes ==
          planned_memory(compile_step(ranks.config, ranks.layout, pipeline_layout(ranks.config, ranks.layout),
                                      rank, ranks.model, ranks.request))
              .input_bytes);
}

TEST_CASE("stages differ where layers have other sizes or other windows") {
  // The second stage has the layer without experts, the third does not.
  const Ranks deepseek(load_config(
      {"--model.name=deepseek_v3", "--model.flavor=debugmodel", "--model.n_layers=6",
       "--training.local_batch_size=8", "--training.seq_len=128", "--validation.enable=false",
       "--parallelism.pipeline_parallel_degree=4", "--parallelism.pipeline_parallel_layout=E|(tt|)*2ttL"}));
  CHECK(deepseek.compiled().kinds().size() == 4);
  const Ranks gpt_oss(load_config({"--model.name=gpt_oss", "--model.flavor=debugmodel", "--model.n_layers=6",
                                   "--training.local_batch_size=8", "--training.seq_len=512",
                                   "--validation.enable=false", "--parallelism.pipeline_parallel_degree=4",
                                   "--parallelism.pipeline_parallel_layout=Ett|t|t|ttL"}));
  CHECK(gpt_oss.compiled().kinds().size() == 4);
}

TEST_CASE(
    "a plan has the memory of the fullest rank and the time of the busiest, or those of the given rank") {
  const ir::DeviceModel device = *ir::find_device_model("h200");
  const JobPlan plan = plan_job(job(), 8, std::nullopt, device);
  REQUIRE(plan.pipeline);
  const PipelinePlan& pipeline = *plan.pipeline;
  REQUIRE(pipeline.bytes.size() == kRanks);
  CHECK(plan.rank == static_cast<std::int64_t>(2 * pipeline.fullest()));
  CHECK(plan.memory.total_bytes() == pipeline.bytes[pipeline.fullest()]);
  CHECK(plan.step.step_s == pipeline.computes[pipeline.busiest()].step_s);
  CHECK(plan.step_s() == Approx(pipeline.step_s()));
  for (std::int64_t rank = 0; rank < 8; rank += 3) {
    const JobPlan of_rank = plan_job(job(), 8, rank, device);
    CHECK(of_rank.rank == rank);
    CHECK(of_rank.memory.total_bytes() == pipeline.bytes[static_cast<std::size_t>(rank) / 2]);
    CHECK(of_rank.step_s() == Approx(plan.step_s()));
  }
  // A message is the output of a stage: [1 * 128, 256] in bf16.
  CHECK(pipeline.message_bytes == 128 * 256 * 2);
}

// Returns the fullest rank's bytes without weights and their gradients: activations and
// received ones.
std::int64_t activation_bytes(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"--compile.memory_policy=full",
                                    "--parallelism.pipeline_parallel_layout="};
  words.insert(words.end(), more.begin(), more.end());
  const Ranks ranks(job(words));
  PipelineRanks compiled = ranks.compiled();
  std::int64_t most = 0;
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    const StepProgram& functions = compiled.of(rank);
    const PlannedMemory memory = planned_memory(functions);
    const auto of = [&](ir::InputKind kind) { return memory.input_bytes[static_cast<std::size_t>(kind)]; };
    std::int64_t bytes = memory.arena_bytes + of(ir::InputKind::saved) + of(ir::InputKind::batch);
    for (const CompiledStage& stage : functions.pipeline->stages) bytes -= stage.saved_bytes(Lifetime::step);
    most = std::max(most, bytes);
  }
  return most;
}

TEST_CASE("with full recomputation and no pending microbatch, zero-bubble schedules take 1F1B's memory") {
  const auto bytes = [](const char* schedule, const char* layers_per_stage, const char* pending) {
    std::vector<std::string> words = {
        "--parallelism.pipeline_parallel_schedule=" + std::string(schedule), "--model.n_layers=14",
        "--parallelism.pipeline_parallel_layers_per_stage=" + std::string(layers_per_stage)};
    if (*pending != '\0')
      words.push_back("--parallelism.pipeline_parallel_max_pending_weight_gradients=" + std::string(pending));
    return static_cast<double>(activation_bytes(words));
  };
  const double plain = bytes("1F1B", "4", "");
  for (const char* schedule : {"InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"}) {
    const char* layers = schedule == std::string("InterleavedZeroBubble") ? "4" : "2";
    INFO(schedule << ": " << bytes(schedule, layers, "") / plain << " of 1F1B's bytes, with one pending "
                  << bytes(schedule, layers, "1") / plain << ", with none "
                  << bytes(schedule, layers, "0") / plain);
    CHECK(bytes(schedule, layers, "") > bytes(schedule, layers, "1"));
    CHECK(bytes(schedule, layers, "1") > bytes(schedule, layers, "0"));
    CHECK(bytes(schedule, layers, "0") <= 1.05 * plain);
    if (layers == std::string("2")) CHECK(bytes(schedule, layers, "1") <= 1.25 * plain);
  }
}

TEST_CASE("a plan lists limits of pending microbatches, and the search uses the largest one that fits") {
  ir::DeviceModel device = *ir::find_device_model("h200");
  const Variant divided{
      job({"--parallelism.pipeline_parallel_schedule=InterleavedZeroBubble", "--compile.memory_policy=full"}),
      kRanks};
  const JobPlan plan = plan_job(divided.config, kRanks, std::nullopt, device);
  const PipelinePlan& pipeline = *plan.pipeline;
  CHECK(pipeline.most_pending() == 4);
  CHECK(pipeline.pending_bytes[0] == 0);  // tokens have no gradient
  CHECK(pipeline.pending_bytes[1] > 0);
  REQUIRE(pipeline.limits.size() == 2);
  for (const PendingLimit& limit : pipeline.limits) {
    Variant limited = divided;
    limited.config.parallelism.pipeline_parallel_max_pending_weight_gradients = limit.most;
    const JobPlan other = plan_job(limited.config, kRanks, std::nullopt, device);
    CHECK(limit.bytes == other.memory.total_bytes());
    CHECK(limit.step_s == Approx(other.step_s()));
    CHECK(limit.bytes < plan.memory.total_bytes());
    CHECK(limit.step_s > plan.step_s());
  }
  CHECK(pipeline.limit_within(pipeline.limits.back().bytes - 1) == 0);
  CHECK(pipeline.limit_within(pipeline.limits.front().bytes) == pipeline.limits.front().most);

  // Room for one pending microbatch with two stages a rank, but not for all.
  const Variant plain{
      job({"--model.n_layers=14", "--parallelism.pipeline_parallel_layout=", "--compile.memory_policy=full"}),
      kRanks};
  const std::vector<Variant> ways = pipelines(plain);
  const Variant& way = *std::find_if(ways.begin(), ways.end(), [](const Variant& v) {
    return v.config.parallelism.pipeline_parallel_schedule == "InterleavedZeroBubble" &&
           !v.config.parallelism.pipeline_parallel_layers_per_stage;
  });
  const std::int64_t room = plan_job(way.config, kRanks, std::nullopt, device).pipeline->limits.back().bytes;
  device.memory_bytes = device.reserve_bytes + room;
  const SearchedJob searched{plain, 1, &device};
  WayPlans plans(searched, plan_job(plain.config, kRanks, std::nullopt, device), 10);
  CHECK_FALSE(plans.whole(way).fits());
  const std::string limit = "--parallelism.pipeline_parallel_max_pending_weight_gradients=";
  const std::vector<Variant> limited = plans.suggestions(way);
  CHECK(std::any_of(limited.begin(), limited.end(), [&](const Variant& v) {
    return flags_between(plain, v).back().starts_with(limit) && plans.whole(v).fits();
  }));
}

TEST_CASE("messages between nodes take longer than those within one") {
  ir::DeviceModel device = *ir::find_device_model("h200");
  device.ranks_per_node = 4;
  device.between_nodes = {device.within_node.bytes_per_s / 100, device.within_node.hop_s};
  const JobPlan plan = plan_job(job(), 8, std::nullopt, device);
  const std::vector<double>& messages = plan.pipeline->times.messages;  // 0 -> 2 -> 4 -> 6
  REQUIRE(messages.size() == 3);
  CHECK(messages[0] == messages[2]);
  CHECK(messages[1] > messages[0]);
}

TEST_CASE(
    "a pipeline's other schedules are planned, and the search returns the flags of faster ones that fit") {
  const ir::DeviceModel device = *ir::find_device_model("h200");
  const Variant gpipe{job({"--parallelism.pipeline_parallel_schedule=GPipe", "--model.n_layers=14",
                           "--parallelism.pipeline_parallel_layout="}),
                      kRanks};
  const JobPlan plan = plan_job(gpipe.config, kRanks, std::nullopt, device);
  const SearchResult faster = search_ways(gpipe, plan, {.plans = 60});
  CHECK(faster.planned > std::ssize(pipelines(gpipe)));
  REQUIRE_FALSE(faster.same_training.empty());
  for (const Way& way : faster.same_training) CHECK(way.tokens_per_s > plan.tokens_per_s());
  const auto has_schedule = [](const Improvement& improvement) {
    return fmt::format("{}", fmt::join(improvement.way.flags, " ")).find("pipeline_parallel_schedule=") !=
           std::string::npos;
  };
  CHECK(std::any_of(faster.improvements.begin(), faster.improvements.end(), has_schedule));
  // Without room for any other way, the search finds none.
  JobPlan tight = plan;
  ir::DeviceModel small = device;
  small.memory_bytes = small.reserve_bytes + 1;
  tight.device = &small;
  CHECK(search_ways(gpipe, tight, {.plans = 20}).same_training.empty());
}

TEST_CASE("layers are split so that stages take equally long") {
  PipelinePlan plan;
  plan.layout.stages = {
      {0, 4, true, false}, {4, 4, false, false}, {8, 4, false, false}, {12, 4, false, true}};
  const auto layout = [&](double first, double last) {
    plan.times.stages = {{first, 0, 0}, {4, 8, 0}, {4, 4, 4}, {last, 0, 0}};
    return plan.even_layout();
  };
  CHECK(layout(12, 12) == "Et*4|(t*4|)*2t*4L");  // a layer takes 3 s, the ends nothing
  CHECK(layout(12, 24) == "Et*5|(t*5|)*2tL");
  CHECK(layout(18, 18) == "Et*3|(t*5|)*2t*3L");
  plan.layout.stages.erase(plan.layout.stages.begin() + 1, plan.layout.stages.end() - 1);
  CHECK(layout(12, 12).empty());
}

TEST_CASE("a pipeline that does not fit gets smaller microbatches, and stays a pipeline") {
  ir::DeviceModel device = *ir::find_device_model("h200");
  const Variant large{
      job({"--parallelism.pipeline_parallel_microbatch_size=4", "--training.local_batch_size=32"}), kRanks};
  device.memory_bytes = device.reserve_bytes +
                        plan_job(large.config, kRanks, std::nullopt, device).memory.total_bytes() * 2 / 3;
  const JobPlan plan = plan_job(large.config, kRanks, std::nullopt, device);
  REQUIRE_FALSE(plan.fits());
  const SearchResult result = search_ways(large, plan, {.plans = 30});
  REQUIRE_FALSE(result.same_training.empty());
  for (const Way& way : result.same_training) CHECK(way.total_bytes <= plan.usable_bytes);
  CHECK(std::any_of(result.same_training.begin(), result.same_training.end(), [](const Way& way) {
    return std::none_of(way.flags.begin(), way.flags.end(), [](const std::string& flag) {
      return flag.starts_with("--parallelism.pipeline_parallel_degree");
    });
  }));
}

}  // namespace
}  // namespace rondo

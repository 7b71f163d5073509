// Tests stages of a pipeline in one process, on one rank: their bodies in several orders, against
// the same microbatches without a pipeline.
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "compiler/bodies/bodies.h"
#include "compiler/execute/cpu_memory.h"
#include "compiler/passes/pipeline.h"
#include "compiler/trace/tracer.h"
#include "parallel/pipeline/csv.h"
#include "parallel/pipeline/lower.h"
#include "parallel/pipeline/schedules.h"
#include "tests/trainer/step/small_job.h"

namespace rondo {
namespace {

constexpr std::int64_t kMicrobatches = 4;

constexpr const char* kWeightsAtOnce =
    "0F0,1F0,2F0,0F1,1F1,2F1,0F2,1F2,2F2,0F3,1F3,2F3,2I0,2W0,1I0,1W0,0I0,0W0,2I1,2W1,1I1,1W1,0I1,0W1,2I2,2W2,"
    "1I2,1W2,0I2,0W2,2I3,2W3,1I3,1W3,0I3,0W3";

// Orders of three stages on one rank: all forwards first; the fewest microbatches in flight; weight
// gradients late, and immediately; a microbatch out of order.
constexpr const char* kOrders[] = {
    "0F0,1F0,2F0,0F1,1F1,2F1,0F2,1F2,2F2,0F3,1F3,2F3,2B0,1B0,0B0,2B1,1B1,0B1,2B2,1B2,0B2,2B3,1B3,0B3",
    "0F0,1F0,2F0,2B0,1B0,0B0,0F1,1F1,2F1,2B1,1B1,0B1,0F2,1F2,2F2,2B2,1B2,0B2,0F3,1F3,2F3,2B3,1B3,0B3",
    "0F0,1F0,2F0,2I0,1I0,0I0,0F1,1F1,2F1,2I1,1I1,0I1,1W0,2W0,0W0,0F2,1F2,2F2,1W1,2W1,0W1,2B2,1B2,0B2,0F3,1F3,"
    "2F3,2I3,"
    "1I3,0I3,2W3,1W3,0W3",
    kWeightsAtOnce,
    "0F0,1F0,2F0,0F2,1F2,2B0,1B0,0B0,0F1,1F1,2F1,2B1,1B1,0B1,2F2,2B2,1B2,0B2,0F3,1F3,2F3,2B3,1B3,0B3"};

PipelineSchedule schedule(const std::string& csv) {
  PipelineSchedule schedule{
      .program = pipeline::lower(pipeline::read_csv(csv, "test")), .proof = {}, .rank = 0};
  schedule.proof = pipeline::prove(schedule.program);
  return schedule;
}

struct PipelinedJob : SmallJob {
  PipelinedJob(const std::string& model, Flags flags)
      : SmallJob(model, 1, with_microbatches(std::move(flags))) {}
  // The last stage has only the head.
  StepProgram compile_stages(ExecutorKind kind, const std::string& csv) const {
    return compile(kind, {{0, 2, true, false}, {2, 0, false, false}, {2, 1, false, true}}, {0, 1, 2}, csv);
  }
  StepProgram compile_overlapped(ExecutorKind kind) const {
    return compile(kind, {{0, 3, true, true}}, {0}, to_csv(pipeline::overlapped(kMicrobatches)));
  }
  using SmallJob::compile;

 private:
  StepProgram compile(ExecutorKind kind, const std::vector<StagePart>& parts,
                      const std::vector<std::int64_t>& of_rank, const std::string& csv) const {
    CompileRequest request = compile_request(config, TargetDevice::cpu, {});
    request.executor = kind;
    return {make_pipeline_step(decoder, parts, of_rank, options), schedule(csv), request, true};
  }
  static Flags with_microbatches(Flags flags) {
    flags.push_back(fmt::format("--training.global_batch_size={}", 2 * kMicrobatches));
    flags.emplace_back("--model.n_layers=3");
    return flags;
  }
};

struct Trained {
  std::vector<double> numbers;  // of each step: loss, norm; then of a validation
  std::map<std::string, at::Tensor> state;
};

Trained train(const SmallJob& job, const StepProgram& compiled) {
  const TrainState state = job.state(compiled, c10::kCPU);
  StepRunner runner(compiled, state, share_resources(compiled.all(), c10::kCPU));
  Trained trained;
  for (std::int64_t step = 0; step < 3; ++step) {
    const StepResult result = runner.run(batch_of(job, kMicrobatches, 10 * step), 1e-3);
    trained.numbers.insert(trained.numbers.end(), {result.loss, result.grad_norm});
    for (const float tokens : result.tokens_per_expert) trained.numbers.push_back(tokens);
  }
  trained.numbers.push_back(runner.validate(batch_of(job, 1, 99)).losses);
  for (const StatePart& part : state.parts()) trained.state[part.name] = part.tensor.clone();
  return trained;
}

void check_equal(const Trained& a, const Trained& b) {
  CHECK(a.numbers == b.numbers);
  REQUIRE(a.state.size() == b.state.size());
  for (const auto& [name, tensor] : a.state) {
    INFO(name);
    CHECK(at::equal(tensor, b.state.at(name)));
  }
}

}  // namespace

TEST_CASE("stages have the bits of the whole model, for any order of bodies and every executor") {
  cpu_memory::install();
  const std::string model = GENERATE("llama3", "deepseek_v3");
  const SmallJob::Flags flags =
      GENERATE(SmallJob::Flags{}, SmallJob::Flags{kBf16, kDocuments, "--training.max_norm=0.1"},
               SmallJob::Flags{kBf16, "--parallelism.fsdp_reshard_after_forward=never",
                               "--compile.memory_policy=full"},
               SmallJob::Flags{kBf16, kDocuments, "--parallelism.fsdp_gradient_sync=step", kCheckpoints});
  const PipelinedJob job(model, flags);
  const Trained expected = train(job, job.compile(ExecutorKind::replay));
  for (const ExecutorKind kind : {ExecutorKind::replay, ExecutorKind::interpreter, ExecutorKind::eager}) {
    for (const char* order : kOrders) {
      if (kind != ExecutorKind::replay && order != kOrders[2]) continue;  // it has all kinds of bodies
      INFO(fmt::format("{}, {} flags, executor {}: {}", model, flags.size(), static_cast<int>(kind), order));
      check_equal(train(job, job.compile_stages(kind, order)), expected);
    }
  }
}

TEST_CASE("overlapped microbatches have the bits of microbatches one after the other, for every executor") {
  cpu_memory::install();
  const SmallJob::Flags flags =
      GENERATE(SmallJob::Flags{"--parallelism.fsdp_reshard_after_forward=always"},
               SmallJob::Flags{kBf16, kDocuments, "--parallelism.fsdp_reshard_after_forward=never",
                               "--compile.memory_policy=default", "--parallelism.fsdp_gradient_sync=step"});
  const PipelinedJob job("deepseek_v3", flags);
  const Trained expected = train(job, job.compile(ExecutorKind::replay));
  for (const ExecutorKind kind : {ExecutorKind::replay, ExecutorKind::interpreter, ExecutorKind::eager}) {
    INFO(fmt::format("{} flags, executor {}", flags.size(), static_cast<int>(kind)));
    const StepProgram overlapped = job.compile_overlapped(kind);
    CHECK(overlapped.pipeline->pairs.size() == (kind == ExecutorKind::eager ? 0 : 1));
    CHECK(overlapped.pipeline->stages[0].slots == 2);
    check_equal(train(job, overlapped), expected);
  }
}

// Returns the bytes that a stage with one layer saves from backward_input to backward_weight.
std::int64_t pending_bytes(const char* model, const std::string& policy, bool recompute) {
  const PipelinedJob job(model, {kBf16, "--compile.memory_policy=" + policy});
  const PipelineFunctions functions = make_pipeline_step(
      job.decoder, {{0, 1, true, false}, {1, 1, false, false}, {2, 1, false, true}}, {1}, job.options);
  ir::Graph joint = trace(functions.stages[0].accumulate);
  ir::run_pipeline(joint, compile_request(job.config, TargetDevice::cpu, {}).options, {},
                   ir::PipelineHalf::before_cut);
  std::int64_t bytes = 0;
  for (const ir::BodyGraph& body : cut_into_bodies(joint, {.whole_backward = false,
                                                          .divided_backward = true,
                                                          .recompute_pending = recompute,
                                                          .input_gradient = "new." + kSentGradient}))
    for (const ir::Input& input : body.graph.inputs)
      if (body.body == ir::Body::backward_weight && input.name.starts_with(ir::kPending))
        bytes += ir::storage_bytes(body.graph.value(input.value).type);
  return bytes;
}

TEST_CASE(
    "a backward that recomputes leaves a fifth to a half of the bytes pending between its parts unsaved") {
  struct Expected {
    const char *model, *policy;
    std::int64_t most_percent;
  };
  for (const auto& [model, policy, most_percent] : {Expected{"llama3", "default", 54},
                                                    {"llama3", "min_cut", 54},
                                                    {"llama3", "full", 78},
                                                    {"deepseek_v3", "default", 43},
                                                    {"deepseek_v3", "min_cut", 43},
                                                    {"deepseek_v3", "full", 58}}) {
    const std::int64_t saved = pending_bytes(model, policy, false),
                       recomputed = pending_bytes(model, policy, true);
    INFO(model << ", " << policy << ": " << saved << " bytes, " << recomputed << " with recomputation");
    CHECK(recomputed * 100 <= saved * most_percent);
  }
}

TEST_CASE("a stage with a loss in chunks saves nothing of the head's size between forward and backward") {
  const auto saved_bytes = [](const SmallJob::Flags& flags) {
    const PipelinedJob job("llama3", flags);
    const PipelineFunctions functions =
        make_pipeline_step(job.decoder, {{0, 2, true, false}, {2, 1, false, true}}, {1}, job.options);
    const ir::Graph joint = trace(functions.stages[0].accumulate);
    std::int64_t bytes = 0;
    for (const ir::BodyGraph& body :
         cut_into_bodies(joint, {.whole_backward = true, .input_gradient = "new." + kSentGradient}))
      for (const ir::Input& input : body.graph.inputs)
        if (body.body == ir::Body::backward && input.name.starts_with(ir::kSaved))
          bytes += ir::storage_bytes(body.graph.value(input.value).type);
    return bytes;
  };
  const std::int64_t whole = saved_bytes({"--compile.loss_chunks=-1", "--compile.numerics=rounds"}),
                     chunks = saved_bytes({"--compile.loss_chunks=2", "--compile.numerics=rounds"});
  INFO(whole << " bytes with whole logits, " << chunks << " in chunks");
  CHECK(chunks < whole);
}

TEST_CASE("the number of pending slots divides the number of slots, for the fewest bytes") {
  cpu_memory::install();
  const auto slots = [](const char* policy) {
    const PipelinedJob job("llama3", {"--compile.memory_policy=" + std::string(policy)});
    // Three microbatches in flight, two of them pending.
    const StepProgram compiled = job.compile_stages(
        ExecutorKind::replay,
        "0F0,1F0,2F0,0F1,1F1,2F1,0F2,1F2,2F2,2I0,1I0,0I0,2I1,1I1,0I1,2W0,1W0,0W0,2W1,1W1,0W1,2B2,1B2,0B2,"
        "0F3,1F3,2F3,2B3,1B3,0B3");
    const CompiledStage& last = compiled.pipeline->stages[2];
    return std::pair(last.slots, last.pending_slots);
  };
  CHECK(slots("none") == std::pair(3, 3));
  CHECK(slots("full") == std::pair(4, 2));
}

TEST_CASE("a stage has as many slots as microbatches in flight, and bodies copy nothing into them") {
  cpu_memory::install();
  const PipelinedJob job("llama3", {});
  const auto saved = [&](const char* order) {
    return planned_memory(job.compile_stages(ExecutorKind::replay, order))
        .input_bytes[static_cast<std::size_t>(ir::InputKind::saved)];
  };
  CHECK(saved(kOrders[0]) == kMicrobatches * saved(kOrders[1]));
  const StepProgram divided = job.compile_stages(ExecutorKind::replay, kOrders[2]);
  CHECK(divided.pipeline->stages[2].slots == 2);
  CHECK(divided.pipeline->stages[2].pending_slots == 2);
  const StepProgram at_once = job.compile_stages(ExecutorKind::replay, kWeightsAtOnce);
  CHECK(at_once.pipeline->stages[2].slots == 4);
  CHECK(at_once.pipeline->stages[2].pending_slots == 1);
  CHECK_FALSE(at_once.pipeline->stages[2].saved(Lifetime::pending).empty());
  const StepProgram compiled = job.compile_stages(ExecutorKind::replay, kOrders[1]);
  const TrainState state = job.state(compiled, c10::kCPU);
  StepRunner runner(compiled, state, share_resources(compiled.all(), c10::kCPU));
  for (int step = 0; step < 2; ++step) runner.run(batch_of(job, kMicrobatches, step), 1e-3);
  CHECK(runner.replay_stats()->state_bytes == 0);
  CHECK(runner.replay_stats()->copied_results == 2);  // the numbers of the update; bodies copy nothing
}

}  // namespace rondo

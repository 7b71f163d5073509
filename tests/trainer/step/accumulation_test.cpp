// Tests the memory and the collectives of gradient accumulation: `accumulate` and `update`. The
// graphs are of a rank among many; nothing is run, or only one rank.
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "compiler/execute/cpu_memory.h"
#include "compiler/ops/op.h"
#include "compiler/text/text.h"
#include "tests/trainer/step/small_job.h"

namespace rondo {
namespace {

// A job with four microbatches.
SmallJob accumulating(const std::string& model, std::int64_t ranks, SmallJob::Flags flags) {
  flags.push_back(fmt::format("--training.global_batch_size={}", 8 * ranks));
  return {model, ranks, flags};
}

std::int64_t arena(const CompiledStep& step) { return ir::plan_memory(step.graph()).arena_bytes; }
// Returns the peak without the gaps of the arena.
std::int64_t live_peak(const CompiledStep& step) { return ir::plan_memory(step.graph()).live_peak_bytes; }

std::int64_t bytes_of(const StepFunction& function, ir::InputKind kind) {
  std::int64_t bytes = 0;
  for (const StepInput& input : function.inputs)
    if (input.kind == kind) bytes += ir::storage_bytes(input.type);
  return bytes;
}

int count(const ir::Graph& graph, std::string_view op) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const ir::Node& node) { return node.op == op; }));
}

int backward_count(const ir::Graph& graph, std::string_view op) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& node) {
    return node.op == op && node.phase == Phase::backward;
  }));
}

// Operands of whole tensors, before the reduce-scatter.
std::int64_t reduce_scattered_bytes(const ir::Graph& graph) {
  std::int64_t bytes = 0;
  for (const ir::Node& node : graph.nodes)
    if (node.op == ir::kReduceScatter) bytes += ir::storage_bytes(graph.value(ir::operand(node, 0)).type);
  return bytes;
}

const std::string kSyncOnce = "--parallelism.fsdp_gradient_sync=step";

// Numbers of the norm, and of the routers.
constexpr std::int64_t kSmall = 32 * 1024;

}  // namespace

TEST_CASE("the update overwrites state and sums in place: in fp32 it plans no copy of a gradient") {
  const std::string model = GENERATE("llama3", "deepseek_v3"),
                    dtype = GENERATE("float32", "bfloat16", "float64");
  INFO(model << ", " << dtype);
  const SmallJob job = accumulating(model, 1, {"--training.dtype=" + dtype});
  const StepProgram compiled = job.compile(ExecutorKind::replay);
  const ir::Graph& update = compiled.at("update").graph();
  CHECK(count(update, "rondo.adamw_.default") == 1);
  CHECK(count(update, "rondo.adamw.default") == 0);
  CHECK(count(update, "aten.zero.default") == 0);
  const std::int64_t gradients = bytes_of(compiled.at("update").function(), ir::InputKind::parameter);
  REQUIRE(gradients > 4 * kSmall);
  // Sums are fp32, and fp64 for fp64: gradients of another dtype are cast.
  CHECK(arena(compiled.at("update")) < (dtype == "bfloat16" ? gradients : 0) + kSmall);
  // A microbatch does not hold all gradients at once either.
  const SmallJob whole(model, 1, {"--training.dtype=" + dtype});
  CHECK(live_peak(compiled.at("accumulate")) <=
        live_peak(whole.compile(ExecutorKind::replay).at("train_step")));
}

TEST_CASE("an eager update makes no copy of what it overwrites") {
  cpu_memory::install();
  const SmallJob job = accumulating("deepseek_v3", 1, {});
  const StepProgram compiled = job.compile(ExecutorKind::eager);
  const TrainState state = job.state(compiled, c10::kCPU);
  const auto update = compiled.at("update").bind(state.inputs_of(compiled.at("update").function()), {});
  const std::vector<at::Tensor> learning_rate{at::full({}, 1e-3f, at::kFloat)};
  update->run(learning_rate);
  const std::int64_t before = cpu_memory::live_bytes();
  cpu_memory::reset_peak();
  update->run(learning_rate);
  CHECK(cpu_memory::peak_bytes() - before < kSmall);
}

TEST_CASE("replicas sum their gradients in the last backward, a bucket at a time, and shards in each") {
  const std::string model = GENERATE("llama3", "deepseek_v3");
  const auto [replicate, shard, experts] =
      GENERATE(table<int, int, int>({{2, 2, 1}, {4, 1, 1}, {2, 2, 2}, {2, 1, 1}}));
  if (model == "llama3" && experts > 1) return;
  INFO(fmt::format("{}, {} x {}, experts over {}", model, replicate, shard, experts));
  SmallJob::Flags flags = {fmt::format("--parallelism.data_parallel_replicate_degree={}", replicate),
                           fmt::format("--parallelism.data_parallel_shard_degree={}", shard),
                           fmt::format("--parallelism.expert_parallel_degree={}", experts)};
  const SmallJob job = accumulating(model, replicate * shard, flags), whole(model, replicate * shard, flags);
  const StepProgram compiled = job.compile(ExecutorKind::replay), once = whole.compile(ExecutorKind::replay);
  const bool routers = model == "deepseek_v3";
  // Valid tokens are summed in the forward; loss, norm and the load of experts in the update. All
  // other sums of a microbatch are of gradients.
  const int others = 2 + routers;
  const ir::Graph &of_microbatch = compiled.at("accumulate").graph(), &last = compiled.at("last").graph();
  const int sums = count(once.at("train_step").graph(), ir::kAllReduce) - others;
  CHECK(sums >= 4);
  CHECK(count(of_microbatch, ir::kAllReduce) == 1);
  CHECK(count(last, ir::kAllReduce) == sums + others);
  CHECK(backward_count(last, ir::kAllReduce) == sums);
  for (const ir::Graph* graph : {&of_microbatch, &last})
    CHECK(count(*graph, ir::kReduceScatter) == count(once.at("train_step").graph(), ir::kReduceScatter));
  CHECK(compiled.find("update") == nullptr);
  // Fewer than one for each parameter.
  CHECK(sums < std::ssize(job.decoder->parameters()) / 2);
}

TEST_CASE("with fsdp_gradient_sync = step the last backward scatters all gradients, and no other does") {
  const std::string model = GENERATE("llama3", "deepseek_v3");
  const auto [replicate, shard, experts] = GENERATE(table<int, int, int>({{1, 3, 1}, {2, 2, 1}, {1, 4, 2}}));
  if (model == "llama3" && experts > 1) return;
  INFO(fmt::format("{}, {} x {}, experts over {}", model, replicate, shard, experts));
  SmallJob::Flags flags = {fmt::format("--parallelism.data_parallel_replicate_degree={}", replicate),
                           fmt::format("--parallelism.data_parallel_shard_degree={}", shard),
                           fmt::format("--parallelism.expert_parallel_degree={}", experts)};
  const StepProgram often = accumulating(model, replicate * shard, flags).compile(ExecutorKind::replay);
  const StepProgram whole = SmallJob(model, replicate * shard, flags).compile(ExecutorKind::replay);
  flags.push_back(kSyncOnce);
  const SmallJob job = accumulating(model, replicate * shard, flags);
  const StepProgram once = job.compile(ExecutorKind::replay);
  const ir::Graph &reducing = often.at("accumulate").graph(), &adding = once.at("accumulate").graph(),
                  &last = once.at("last").graph();
  std::int64_t sums = 0, padded = 0;
  for (const ParameterRule& rule : job.decoder->parameters()) {
    const ShardPlacement place = shard_placement_of(rule, job.layout.mesh, job.rank);
    sums += 4 * place.shard.part_elements();
    padded += 4 * place.shard.stored() * place.shards.ranks;
  }
  // The same collectives and bytes as in one microbatch that reduces.
  CHECK(reduce_scattered_bytes(last) - reduce_scattered_bytes(adding) == padded);
  CHECK(reduce_scattered_bytes(last) == reduce_scattered_bytes(reducing));
  CHECK(count(last, ir::kReduceScatter) > count(adding, ir::kReduceScatter));
  CHECK(count(last, ir::kReduceScatter) == count(reducing, ir::kReduceScatter));
  CHECK(backward_count(last, ir::kReduceScatter) == backward_count(reducing, ir::kReduceScatter));
  // Replicas sum the results.
  CHECK(count(last, ir::kAllReduce) == count(whole.at("train_step").graph(), ir::kAllReduce));
  CHECK(once.find("update") == nullptr);
  std::int64_t held = 0;
  for (const StepInput& input : once.at("accumulate").function().inputs)
    if (input.name.starts_with("unsharded_grad.")) held += ir::storage_bytes(input.type);
  CHECK(held == sums);
}

TEST_CASE("a backward that adds up whole gradients holds one at a time") {
  const SmallJob::Flags deep = {"--model.n_layers=8", "--training.seq_len=8",
                                "--training.local_batch_size=1"};
  SmallJob::Flags with_sums = deep;
  with_sums.push_back(kSyncOnce);
  const StepProgram often = accumulating("llama3", 1, deep).compile(ExecutorKind::replay),
                    once = accumulating("llama3", 1, with_sums).compile(ExecutorKind::replay);
  const std::int64_t gradients = bytes_of(once.at("update").function(), ir::InputKind::parameter);
  CHECK(arena(often.at("accumulate")) >= gradients);
  CHECK(arena(once.at("accumulate")) < gradients / 2);
}

TEST_CASE("a step of one microbatch is the same with either gradient sync") {
  const auto text = [](const SmallJob::Flags& flags) {
    return ir::print(SmallJob("llama3", 2, flags).compile(ExecutorKind::replay).at("train_step").graph());
  };
  CHECK(text({kSyncOnce}) == text({}));
}

}  // namespace rondo

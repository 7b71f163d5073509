// Tests training steps with fused ops against the same steps without. Exact fusions keep every
// bit, rounding fusions differ by rounding alone, and both executors of a fused graph agree in
// every bit.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "compiler/execute/cpu_device.h"
#include "compiler/execute/cpu_memory.h"
#include "compiler/execute/executor.h"
#include "compiler/execute/replay.h"
#include "compiler/passes/pipeline.h"
#include "compiler/trace/tracer.h"
#include "models/deepseek_v3/deepseek_v3.h"
#include "models/llama3/llama3.h"
#include "models/parts/decoder.h"
#include "tests/trainer/step/initial_state.h"
#include "trainer/step/functions/train_step.h"

namespace rondo {
namespace {

using Tensors = std::vector<at::Tensor>;
using Words = std::vector<std::string>;

constexpr const char* kMm = "aten.mm.default";

std::shared_ptr<const Decoder> small_llama() {
  Llama3Config c;
  c.dim = 64, c.n_layers = 2, c.n_heads = 4, c.n_kv_heads = 2, c.vocab_size = 300, c.multiple_of = 32;
  return make_decoder(c);
}
std::shared_ptr<const Decoder> small_deepseek() {
  DeepSeekV3Config c;
  c.dim = 48, c.n_layers = 2, c.n_heads = 2, c.vocab_size = 300, c.ffn_hidden_dim = 40, c.q_lora_rank = 24;
  c.kv_lora_rank = 16, c.qk_nope_head_dim = 8, c.qk_rope_head_dim = 12, c.v_head_dim = 8,
  c.moe_hidden_dim = 16;
  return make_decoder(c);
}

struct Step {
  StepFunction function;
  TrainStepOptions options;
  std::shared_ptr<const Decoder> model;

  Tensors state() const { return initial_state(function, *model); }
  Tensors batch() const {
    at::Tensor tokens = at::zeros({options.local_batch_size, options.seq_len}, at::kLong);
    for (std::int64_t i = 0; i < tokens.numel(); ++i) tokens.data_ptr<std::int64_t>()[i] = i * 31 % 300;
    return {tokens, tokens.roll(-1, 1), at::full({}, static_cast<float>(tokens.numel()), at::kFloat),
            at::full({}, 1e-3f, at::kFloat)};
  }
  // On CUDA one product is faster than several small ones.
  ir::Graph graph(const std::string& numerics, const Words& disabled = {}) const {
    TrainStepOptions step = options;
    if (numerics == "rounds") step.loss_chunks = 0;
    ir::Graph graph = trace(make_train_step(model, step).microbatch);
    CompileOptions passes;
    passes.set("numerics", numerics);
    passes.device = TargetDevice::cuda;
    passes.disable_passes = disabled;
    ir::run_pipeline(graph, passes);
    return graph;
  }
};

Step small_step(const std::shared_ptr<const Decoder>& model, at::ScalarType dtype) {
  TrainStepOptions options;
  options.local_batch_size = 2, options.seq_len = 20;
  options.sharding.fsdp.compute_dtype = dtype;
  if (dtype == at::kDouble) options.state_dtype = options.sharding.fsdp.reduce_dtype = dtype;
  return {make_train_step(model, options).microbatch, options, model};
}

int count(const ir::Graph& graph, std::string_view op) {
  return static_cast<int>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& n) { return n.op == op; }));
}

// Returns how many permutations of rows add two gradients.
int count_added_rows(const ir::Graph& graph) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const ir::Node& n) {
    return n.op == "rondo.unpermute_tokens.default" && ir::operand(n, 5) != ir::kNoValue;
  }));
}

// Returns loss and norm of the first step, and the averages of the gradients after it, which are
// multiples of the gradients.
Tensors first_step(Executor& executor, const Step& step, const Tensors& state) {
  Tensors results;
  for (const at::Tensor& result : executor.run(step.batch())) results.push_back(result.clone());
  std::size_t next = 0;
  for (const StepInput& input : step.function.inputs) {
    if (input.kind == ir::InputKind::batch) continue;
    if (input.name.starts_with("exp_avg.")) results.push_back(state[next].clone());
    ++next;
  }
  return results;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide_a = a.to(at::kDouble), wide_b = b.to(at::kDouble);
  return ((wide_a - wide_b).norm() / (wide_b.norm() + 1e-12)).item<double>();
}

}  // namespace

TEST_CASE("exact fusions keep every bit of a step") {
  cpu_memory::install();
  const bool deepseek = GENERATE(false, true);
  const Step step = small_step(deepseek ? small_deepseek() : small_llama(),
                               GENERATE(at::kFloat, at::kBFloat16, at::kDouble));
  const ir::Graph fused = step.graph("exact"),
                  plain = step.graph("exact", {"fuse_add_rms_norm", "fuse_add_permute_tokens"});
  CHECK(count(fused, "rondo.rope.default") == 8);
  CHECK(count(plain, "rondo.rope.default") == 8);
  CHECK(count(fused, "rondo.add_rms_norm.default") == 4);
  CHECK(count(plain, "rondo.add_rms_norm.default") == 0);
  CHECK(count_added_rows(fused) == (deepseek ? 1 : 0));  // one block has experts
  CHECK(count_added_rows(plain) == 0);
  const Tensors plain_state = step.state(), fused_state = step.state();
  const Tensors expected = first_step(*make_interpreter(plain, plain_state), step, plain_state),
                actual = first_step(*make_interpreter(fused, fused_state), step, fused_state);
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) REQUIRE(at::equal(actual[i], expected[i]));
}

TEST_CASE("fusions that round change the loss and the gradients of a step by rounding alone") {
  cpu_memory::install();
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  const bool deepseek = GENERATE(false, true);
  INFO((deepseek ? "DeepSeek " : "Llama ") << dtype);
  const Step step = small_step(deepseek ? small_deepseek() : small_llama(), dtype);
  const ir::Graph plain = step.graph("exact"), fused = step.graph("rounds");
  // Two per block and the last one; DeepSeek has two more per block, for the latents.
  CHECK(count(fused, "rondo.rms_norm_backward.default") == (deepseek ? 5 : 1));
  // All norms except the first add a residual, and all except the last add the gradient of their
  // input. Norms of latents have no residual.
  CHECK(count(fused, "rondo.add_rms_norm.default") == 4);
  CHECK(count(fused, "rondo.add_rms_norm_backward.default") == 4);
  CHECK(count(fused, "rondo.rope.default") == 8);
  const ir::Graph apart = step.graph("rounds", {"merge_linears"});
  CHECK(count(apart, "rondo.swiglu_backward_joined.default") == 0);
  // A block has two sums for queries, keys and values, and one for gate and up.
  if (!deepseek) CHECK(count(apart, "aten.addmm_.default") == 2 * 3);
  CHECK(count(apart, "aten.addmm_.default") > 0);
  CHECK(count(fused, "rondo.swiglu_backward_joined.default") == 2);
  // In a Llama block queries, keys and values have one product each way; so do gate and up.
  if (!deepseek) CHECK(count(plain, kMm) == 2 * 21 + 3);
  if (!deepseek) CHECK(count(fused, kMm) == 2 * 12);
  CHECK(count(fused, kMm) < count(plain, kMm) - 3);

  const Tensors plain_state = step.state();
  const Tensors expected = first_step(*make_interpreter(plain, plain_state), step, plain_state);
  for (const ir::Graph* graph : {&fused, &apart}) {
    INFO((graph == &fused ? "merged" : "apart"));
    const Tensors state = step.state(), actual = first_step(*make_interpreter(*graph, state), step, state);
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      INFO("quantity " << i);
      CHECK(relative_difference(actual[i], expected[i]) < (dtype == at::kBFloat16 ? 3e-2
                                                           : dtype == at::kDouble ? 1e-12
                                                                                  : 2e-5));
    }
  }
}

TEST_CASE("a fused graph gives the same bits interpreted and replayed") {
  cpu_memory::install();
  const Step step = small_step(GENERATE(false, true) ? small_deepseek() : small_llama(),
                               GENERATE(at::kFloat, at::kBFloat16, at::kDouble));
  const ir::Graph graph = step.graph("rounds", GENERATE(0, 1) == 0 ? Words{} : Words{"merge_linears"});
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  const Tensors interpreted_state = step.state(), replayed_state = step.state();
  const auto interpreter = make_interpreter(graph, interpreted_state);
  const auto memory = std::make_shared<ReplayMemory>(make_cpu_device(), plan.arena_bytes);
  const auto replay = make_replay(graph, plan, memory, replayed_state);
  for (int i = 0; i < 3; ++i) {
    const Tensors a = first_step(*interpreter, step, interpreted_state);
    const Tensors b = first_step(*replay, step, replayed_state);
    for (std::size_t k = 0; k < a.size(); ++k) REQUIRE(at::equal(a[k], b[k]));
  }
}

}  // namespace rondo

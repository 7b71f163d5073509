// Tests the bitwise ladder on one rank: eager, interpreter and replay agree over steps in losses,
// norms and the whole state.
#include "trainer/step/functions/train_step.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "compiler/compile.h"
#include "compiler/execute/cpu_device.h"
#include "compiler/execute/cpu_memory.h"
#include "compiler/execute/executor.h"
#include "compiler/execute/replay.h"
#include "compiler/text/text.h"
#include "compiler/trace/tracer.h"
#include "compiler/verify/verify.h"
#include "models/deepseek_v3/deepseek_v3.h"
#include "models/llama3/llama3.h"
#include "models/parts/decoder.h"
#include "tests/compiler/execute/recording_device.h"
#include "tests/trainer/step/initial_state.h"

namespace rondo {
namespace {

using Tensors = std::vector<at::Tensor>;

Llama3Config small_llama() {
  Llama3Config config;
  config.dim = 64;
  config.n_layers = 2;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.vocab_size = 300;
  config.multiple_of = 32;
  return config;
}

TrainStepOptions small_options() {
  TrainStepOptions options;
  options.local_batch_size = 2;
  options.seq_len = 32;
  return options;
}

Tensors batch_of(const TrainStepOptions& options, int step) {
  at::Tensor tokens = at::zeros({options.local_batch_size, options.seq_len}, at::kLong);
  for (std::int64_t i = 0; i < tokens.numel(); ++i)
    tokens.data_ptr<std::int64_t>()[i] = (i * 31 + step * 7) % 300;
  const at::Tensor labels = tokens.roll(-1, 1);
  return {tokens, labels, at::full({}, static_cast<float>(tokens.numel()), at::kFloat),
          at::full({}, 1e-3f, at::kFloat)};
}

// Runs `steps` steps and returns everything that must agree: results of each step, then the state.
Tensors outcome(Executor& executor, const TrainStepOptions& options, const Tensors& state, int steps) {
  Tensors all;
  for (int step = 0; step < steps; ++step)
    for (const at::Tensor& result : executor.run(batch_of(options, step))) all.push_back(result.clone());
  for (const at::Tensor& tensor : state) all.push_back(tensor.clone());
  return all;
}

void require_equal(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO("quantity " << i);
    REQUIRE(at::equal(a[i], b[i]));
  }
}

}  // namespace

TEST_CASE("eager, interpreted and replayed steps are equal bit for bit") {
  cpu_memory::install();
  const auto model = make_decoder(small_llama());
  TrainStepOptions options = small_options();
  const bool bf16 = GENERATE(false, true);
  if (bf16) options.sharding.fsdp.compute_dtype = at::kBFloat16;
  if (bf16 && GENERATE(false, true)) {
    options.state_dtype = at::kBFloat16;
    options.rounding_seed = 42;
  }
  const TrainStepFunctions functions = make_train_step(model, options);
  const ir::Graph graph = trace(functions.microbatch);
  ir::verify(graph, "trace");

  const Tensors eager_state = initial_state(functions.microbatch, *model);
  const Tensors eager = outcome(*make_eager(functions.microbatch, eager_state), options, eager_state, 4);
  CHECK(eager[0].item<float>() > eager[9].item<float>());  // the loss of step 4 is below that of step 1

  const Tensors interpreted_state = initial_state(functions.microbatch, *model);
  const auto interpreter = make_interpreter(graph, interpreted_state);
  require_equal(eager, outcome(*interpreter, options, interpreted_state, 4));

  const Tensors replayed_state = initial_state(functions.microbatch, *model);
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  const auto memory = std::make_shared<ReplayMemory>(make_cpu_device(), plan.arena_bytes);
  const auto replay = make_replay(graph, plan, memory, replayed_state);
  require_equal(eager, outcome(*replay, options, replayed_state, 4));
}

TEST_CASE("the sequence-level balance loss is in the graph of a step if it has a factor, and not otherwise") {
  const auto functions = [](double coeff) {
    DeepSeekV3Config config;
    config.dim = 32, config.n_layers = 2, config.n_heads = 2, config.vocab_size = 40,
    config.ffn_hidden_dim = 48;
    config.kv_lora_rank = 16, config.qk_nope_head_dim = 8, config.qk_rope_head_dim = 8, config.v_head_dim = 8;
    config.moe_hidden_dim = 16, config.sequence_balance_coeff = coeff;
    return make_train_step(make_decoder(config), small_options());
  };
  const auto nodes = [](const StepFunction& function) { return trace(function).nodes.size(); };
  const TrainStepFunctions without = functions(0), with = functions(0.1);
  CHECK(nodes(with.microbatch) > nodes(without.microbatch));
  CHECK(ir::print(trace(with.validate)) == ir::print(trace(without.validate)));
}

TEST_CASE(
    "a recorded step is one segment and gives the bits of the interpreter, before and after the passes") {
  cpu_memory::install();
  const auto model = make_decoder(small_llama());
  TrainStepOptions options = small_options();
  if (GENERATE(false, true)) options.sharding.fsdp.compute_dtype = at::kBFloat16;
  const StepFunction function = make_train_step(model, options).microbatch;
  const Tensors interpreted_state = initial_state(function, *model);
  const Tensors expected =
      outcome(*make_interpreter(trace(function), interpreted_state), options, interpreted_state, 5);

  CompileRequest request;
  request.options.device = TargetDevice::cuda;
  request.options.passes =
      GENERATE(std::vector<std::string>{"cudagraph"}, std::vector<std::string>{"canonicalize", "cudagraph"});
  const CompiledStep compiled(function, request);
  CHECK(compiled.report().segments == 1);
  const ir::MemoryPlan plan = ir::plan_memory(compiled.graph());
  const auto log = std::make_shared<DeviceLog>();
  auto device = std::make_shared<RecordingDevice>(log);
  const Tensors state = initial_state(function, *model);
  auto step =
      make_replay(compiled.graph(), plan, std::make_shared<ReplayMemory>(device, plan.arena_bytes), state);
  require_equal(expected, outcome(*step, options, state, 5));
  CHECK(log->count("launch") == 4);
  // Tokens, labels and two scalars.
  CHECK(step->stats()->batch_bytes == 2 * 2 * 32 * 8 + 2 * 4);
  CHECK(step->stats()->recorded_ops == step->stats()->instructions);
  step.reset();
  device.reset();
  CHECK(log->violations.empty());
}

int count_ops(const ir::Graph& graph, std::string_view op) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const ir::Node& node) { return node.op.starts_with(op); }));
}

// Gradients of so many elements that are cast to bf16.
int bf16_gradients(const ir::Graph& graph, std::int64_t elements) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& node) {
    if (node.op != "aten._to_copy.default" || node.phase != Phase::backward) return false;
    const ir::TensorType& type = graph.value(node.results[0]).type;
    return type.dtype == ir::DType::bf16 && ir::element_count(type) == elements;
  }));
}

TEST_CASE(
    "a step whose loss comes in chunks has the same bits eager, interpreted and replayed, near those of the "
    "whole loss") {
  cpu_memory::install();
  struct Case {
    bool bf16, ties;
    std::int64_t chunks;
  };
  const Case one = GENERATE(Case{false, false, 5}, Case{true, true, 1}, Case{true, false, 64});
  Llama3Config config = small_llama();
  config.tie_embeddings = one.ties;
  const auto model = make_decoder(config);
  TrainStepOptions options = small_options();
  if (one.bf16) options.sharding.fsdp.compute_dtype = at::kBFloat16;
  const StepFunction whole_function = make_train_step(model, options).microbatch;
  const Tensors whole_state = initial_state(whole_function, *model);
  const Tensors whole =
      outcome(*make_interpreter(trace(whole_function), whole_state), options, whole_state, 4);

  options.loss_chunks = one.chunks;
  const StepFunction function = make_train_step(model, options).microbatch;
  CHECK(function.notes == std::vector<std::string>{fmt::format("logits of {} of 64 rows at a time",
                                                               (64 + one.chunks - 1) / one.chunks)});
  CompileRequest request;
  const CompiledStep replayed(function, request);
  CHECK(count_ops(replayed.graph(), "rondo.linear_cross_entropy.default") == 1);
  CHECK(count_ops(replayed.graph(), "rondo.cross_entropy") == 0);
  // The head's gradient is rounded to bf16 where it is added to the embedding's.
  CHECK(bf16_gradients(replayed.graph(), config.vocab_size * config.dim) == (one.bf16 && one.ties ? 1 : 0));
  request.executor = ExecutorKind::interpreter;
  const CompiledStep interpreted(function, request);
  request.executor = ExecutorKind::eager;
  const CompiledStep eager(function, request);
  std::vector<Tensors> outcomes;
  for (const CompiledStep* step : {&replayed, &interpreted, &eager}) {
    const Tensors state = initial_state(function, *model);
    const SharedResources shared = share_resources({step}, c10::kCPU, {});
    outcomes.push_back(outcome(*step->bind(state, shared), options, state, 4));
  }
  require_equal(outcomes[0], outcomes[1]);
  require_equal(outcomes[0], outcomes[2]);
  // Loss and gradient norm of each step.
  for (std::size_t i = 0; i < 12; i += 3)
    for (std::size_t quantity : {i, i + 1}) {
      INFO("quantity " << quantity);
      const float expected = whole[quantity].item<float>(), got = outcomes[0][quantity].item<float>();
      CHECK(std::abs(got - expected) < (one.bf16 ? 4e-3f : 2e-5f) * expected);
    }
}

TEST_CASE("with its loss in chunks a step on a long batch needs a fraction of the memory") {
  Llama3Config config = small_llama();
  config.vocab_size = 4096;
  TrainStepOptions options = small_options();
  options.seq_len = 512;
  options.validation_batch_size = 2;
  options.validation_seq_len = 512;
  const std::int64_t logits = 2 * 512 * 4096 * 4;
  struct Bytes {
    std::int64_t step, validation;
  };
  const auto planned = [&](std::optional<std::int64_t> chunks) {
    options.loss_chunks = chunks;
    const TrainStepFunctions functions = make_train_step(make_decoder(config), options);
    return Bytes{CompiledStep(functions.microbatch, {}).replay_bytes(),
                 CompiledStep(functions.validate, {}).replay_bytes()};
  };
  const Bytes whole = planned({}), in_8 = planned(8), in_32 = planned(32);
  CHECK(whole.step > logits);
  CHECK(whole.step < 2 * logits);  // whose gradient takes their memory
  CHECK(in_8.step < whole.step - 3 * logits / 4);
  CHECK(in_32.step < in_8.step);
  CHECK(whole.validation >= logits);
  CHECK(in_8.validation < logits / 2);
}

TEST_CASE("checkpointed blocks change no bit of an eager step and lower its peak memory") {
  cpu_memory::install();
  const auto model = make_decoder(small_llama());
  std::int64_t peaks[2];
  Tensors outcomes[2];
  for (const bool checkpointed : {false, true}) {
    TrainStepOptions options = small_options();
    options.checkpoint.every = checkpointed;
    const TrainStepFunctions functions = make_train_step(model, options);
    const Tensors state = initial_state(functions.microbatch, *model);
    const auto eager = make_eager(functions.microbatch, state);
    eager->run(batch_of(options, 0));
    const std::int64_t before = cpu_memory::live_bytes();
    cpu_memory::reset_peak();
    eager->run(batch_of(options, 1));
    peaks[checkpointed] = cpu_memory::peak_bytes() - before;
    outcomes[checkpointed] = outcome(*eager, options, state, 2);
  }
  require_equal(outcomes[0], outcomes[1]);
  CHECK(peaks[1] < peaks[0]);
}

}  // namespace rondo

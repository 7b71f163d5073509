// Random graphs through text, verifier and passes, executed with real tensors before and after
// each. This covers what the symbols of passes_test miss, such as kernels that round differently on
// other strides.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Formatting.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/allclose.h>

#include <catch2/catch_test_macros.hpp>
#include <map>

#include "compiler/execute/boxed_node.h"
#include "compiler/execute/cpu_device.h"
#include "compiler/execute/cpu_memory.h"
#include "compiler/execute/replay.h"
#include "compiler/passes/pipeline.h"
#include "compiler/text/text.h"
#include "compiler/verify/verify.h"
#include "support/error.h"
#include "tests/compiler/execute/executed_graph.h"
#include "tests/compiler/passes/random_graph.h"

namespace rondo {
namespace {

using namespace ir;
using Tensors = std::vector<at::Tensor>;
using Results = std::map<std::string, at::Tensor>;  // by output

// --- execution ---

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

bool has_type(const at::Tensor& tensor, const TensorType& type) {
  return tensor.sizes() == type.sizes && tensor.strides() == type.strides &&
         tensor.scalar_type() == to_aten(type.dtype);
}

// Calls the nodes in order. Checks that each result has the type and the storage of the graph.
class CheckedRun {
 public:
  CheckedRun(const Graph& graph, const Tensors& inputs) : graph_(graph), values_(graph.values.size()) {
    const Tensors own = copies(inputs);
    for (std::size_t i = 0; i < own.size(); ++i) values_[at(graph.inputs[i].value)] = own[i];
  }

  Results run() {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    at::manual_seed(1);
    for (const Node& node : graph_.nodes)
      if (node.op != kReturn) call(node);
    Results results;
    std::size_t next = 0;
    for_each_operand(graph_.return_node(),
                     [&](ValueId id) { results[graph_.outputs[next++].name] = values_[at(id)].clone(); });
    return results;
  }

 private:
  void call(const Node& node) {
    const BoxedNode boxed(node);
    torch::jit::Stack stack;
    boxed.push(stack, [&](ValueId id) { return values_[at(id)]; });
    boxed.call(stack);
    const Tensors returned = flatten_results(stack);
    std::size_t next = 0;
    for (ValueId id : node.results) {
      const Value& value = graph_.value(id);
      at::Tensor& result = values_[at(id)];
      result = value.writes != kNoValue ? values_[at(value.writes)] : returned.at(next++);
      if (!has_type(result, value.type))
        FAIL(print(graph_, node) << " gave a " << print(type_of(result)) << " for %" << id);
      if (value.views != kNoValue && !result.is_alias_of(values_[at(value.views)]))
        FAIL(print(graph_, node) << ": %" << id << " views nothing");
    }
  }

  const Graph& graph_;
  Tensors values_;
};

Results replay(const Graph& graph, const Tensors& inputs) {
  Tensors state, batch;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    (graph.inputs[i].kind == InputKind::batch ? batch : state).push_back(inputs[i].clone());
  const MemoryPlan plan = plan_memory(graph);
  const auto memory = std::make_shared<ReplayMemory>(make_cpu_device(), plan.arena_bytes);
  const auto player = make_replay(graph, plan, memory, state);
  at::manual_seed(1);
  const Tensors returned = player->run(batch);
  Results results;
  std::size_t next = 0;
  for (const Output& output : graph.outputs) {
    if (output.updates < 0) {
      results[output.name] = returned.at(next++).clone();
      continue;
    }
    std::size_t place = 0;
    for (int i = 0; i < output.updates; ++i)
      place += graph.inputs[static_cast<std::size_t>(i)].kind != InputKind::batch;
    results[output.name] = state[place].clone();
  }
  return results;
}

// --- comparison ---

void require_same(const Results& results, const Results& expected, Numerics numerics) {
  REQUIRE(results.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    const bool fits = numerics == Numerics::exact
                          ? is_same(results.at(name), tensor)
                          : at::allclose(results.at(name), tensor, 1e-2, 1e-2, /*equal_nan=*/true);
    if (!fits) FAIL("another " << name << ":\n" << results.at(name) << "\ninstead of\n" << tensor);
  }
}

// Returns random options that a small random graph supports.
CompileOptions random_options(std::uint64_t seed) {
  const auto pick = []<class Option>(Option& option, std::uint64_t number) {
    option = static_cast<Option>(number % kNamesOf<Option>.size());
  };
  CompileOptions options;
  pick(options.numerics, seed);
  pick(options.memory_policy, seed / 2);
  pick(options.reshard_after_forward, seed / 3);
  return options;
}

void check_passes(std::uint64_t seed) {
  const Graph graph = random_graph(seed, 5 + static_cast<int>(seed % 150));
  const CompileOptions options = random_options(seed);
  INFO("seed " << seed << ", policy " << name_of(options.memory_policy) << "\n" << print(graph));
  verify(graph, "generation");
  REQUIRE(print(parse(print(graph), "random.ir")) == print(graph));
  const Tensors inputs = random_inputs(graph, seed);
  const Results expected = CheckedRun(graph, inputs).run();
  for (const PassInfo& pass : all_passes()) {
    INFO(pass.name);
    Graph after = graph;
    for (const PassInfo* one : with_prerequisites(pass)) {
      one->run(after, options);
      verify(after, one->name);
    }
    require_same(CheckedRun(after, inputs).run(), expected, pass.numerics);
  }
  INFO("all passes");
  Graph after = graph;
  run_pipeline(after, options);
  require_same(CheckedRun(after, inputs).run(), expected, options.numerics);
  require_same(replay(after, inputs), CheckedRun(after, inputs).run(), Numerics::exact);
}

}  // namespace

TEST_CASE("passes keep the results of random graphs in execution") {
  cpu_memory::install();
  at::set_num_threads(1);  // the tensors are tiny
  register_twin_group();
  for (std::uint64_t seed = 0; seed < RONDO_FUZZED_GRAPHS; ++seed) check_passes(seed);
}

}  // namespace rondo

// Random graphs, cut by host reads at random places, compiled and recorded: every step must give
// the bits of the interpreter.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <catch2/catch_test_macros.hpp>
#include <random>

#include "compiler/execute/cpu_memory.h"
#include "compiler/execute/replay.h"
#include "compiler/ops/op.h"
#include "compiler/ops/segments.h"
#include "compiler/passes/pipeline.h"
#include "compiler/text/text.h"
#include "compiler/verify/verify.h"
#include "tests/compiler/execute/executed_graph.h"
#include "tests/compiler/execute/recording_device.h"
#include "tests/compiler/passes/random_graph.h"

namespace rondo {
namespace {

using namespace ir;
using Tensors = std::vector<at::Tensor>;

constexpr std::uint64_t kGraphs = 200;
constexpr int kSteps = 4;

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

// Sends some results through the host: %v becomes a view of masked_select(%v, a mask that is true
// everywhere), and later readers of %v read the view. REQUIRES: no node overwrites anything.
class Cutter {
 public:
  Cutter(Graph graph, std::uint64_t seed) : graph_(std::move(graph)), random_(seed) {}

  Graph cut() {
    std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    std::vector<ValueId> now(graph_.values.size());
    for (std::size_t i = 0; i < now.size(); ++i) now[i] = static_cast<ValueId>(i);
    for (Node& node : old) {
      for_each_operand(node, [&](ValueId& id) { id = now[at(id)]; });
      for (ValueId id : node.results)
        if (ValueId& viewed = graph_.value(id).views; viewed != kNoValue) viewed = now[at(viewed)];
      graph_.nodes.push_back(node);
      if (node.results.size() == 1 && can_be_cut(node) && random_() % 8 == 0)
        now[at(node.results[0])] = through_the_host(node);
    }
    return std::move(graph_);
  }

 private:
  bool can_be_cut(const Node& node) const {
    const Value& value = graph_.value(node.results[0]);
    return facts(node.op).effect == Effect::none && value.views == kNoValue && value.writes == kNoValue &&
           is_contiguous(value.type) && value.type.strides == contiguous_strides(value.type.sizes) &&
           element_count(value.type) > 0;
  }

  ValueId add(const Node& like, std::string op, std::vector<Argument> args, TensorType type, ValueId views) {
    const ValueId id = graph_.add_value({.type = std::move(type), .views = views});
    graph_.nodes.push_back({.op = std::move(op),
                            .args = std::move(args),
                            .results = {id},
                            .phase = like.phase,
                            .module = like.module,
                            .origin = {}});
    return id;
  }

  ValueId through_the_host(const Node& node) {
    const ValueId id = node.results[0];
    const TensorType type = graph_.value(id).type;
    TensorType mask_type = type;
    mask_type.dtype = DType::b8;
    const ValueId mask = add(node, "aten.ones_like.default",
                             {Use{id}, DType::b8, None{}, None{}, None{}, None{}}, mask_type, kNoValue);
    const ValueId row = add(node, "aten.masked_select.default", {Use{id}, Use{mask}},
                            contiguous(type.dtype, {element_count(type)}), kNoValue);
    return add(node, "aten.view.default", {Use{row}, type.sizes}, type, row);
  }

  Graph graph_;
  std::mt19937_64 random_;
};

struct Inputs {
  Tensors state, batch;
};
Inputs inputs_of(const Graph& graph, std::uint64_t seed) {
  Inputs inputs;
  const Tensors all = random_inputs(graph, seed);
  for (std::size_t i = 0; i < all.size(); ++i)
    (graph.inputs[i].kind == InputKind::batch ? inputs.batch : inputs.state).push_back(all[i]);
  return inputs;
}

// Returns results and state after each step, with another batch in each.
Tensors outcome(Executor& executor, const Inputs& inputs) {
  at::manual_seed(1);
  Tensors all;
  for (int step = 0; step < kSteps; ++step) {
    Tensors batch;
    for (const at::Tensor& tensor : inputs.batch) batch.push_back(tensor * (step + 1));
    for (const at::Tensor& result : executor.run(batch)) all.push_back(result.clone());
    for (const at::Tensor& tensor : inputs.state) all.push_back(tensor.clone());
  }
  return all;
}

// Returns the number of segments.
std::size_t check(std::uint64_t seed) {
  const Graph traced = Cutter(random_graph(seed, 5 + static_cast<int>(seed % 120)), seed).cut();
  INFO("seed " << seed << "\n" << print(traced));
  verify(traced, "generation");
  Graph graph = traced;
  run_pipeline(graph, {.passes = {"default", "cudagraph"}, .device = TargetDevice::cuda});
  REQUIRE(print(parse(print(graph), "random.ir")) == print(graph));
  const Inputs expected = inputs_of(graph, seed), recorded = inputs_of(graph, seed);
  const auto interpreter = make_interpreter(graph, expected.state);
  const Tensors of_interpreter = outcome(*interpreter, expected);

  const auto log = std::make_shared<DeviceLog>();
  auto device = std::make_shared<RecordingDevice>(log);
  const MemoryPlan plan = plan_memory(graph);
  auto step =
      make_replay(graph, plan, std::make_shared<ReplayMemory>(device, plan.arena_bytes), recorded.state);
  const Tensors of_recordings = outcome(*step, recorded);
  REQUIRE(of_interpreter.size() == of_recordings.size());
  for (std::size_t i = 0; i < of_interpreter.size(); ++i) {
    INFO("quantity " << i);
    REQUIRE(is_same(of_interpreter[i], of_recordings[i]));
  }
  step.reset();
  device.reset();
  REQUIRE(log->violations.empty());
  return graph.segments.size();
}

}  // namespace

TEST_CASE("random graphs, recorded in segments, give the bits of the interpreter over several steps") {
  cpu_memory::install();
  at::set_num_threads(1);  // the tensors are tiny
  register_twin_group();
  std::size_t segments = 0;
  for (std::uint64_t seed = 0; seed < kGraphs; seed += 2)
    segments += check(seed);  // even seeds overwrite nothing
  CHECK(segments > kGraphs);  // most graphs are cut
}

}  // namespace rondo

// Two merged bodies: which inputs they share, and which each has for itself.
#include "compiler/bodies/merge.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/compiler/ir/verified_graph.h"

using namespace rondo;
using namespace rondo::ir;

namespace {

constexpr const char* kForward = R"(graph stage_0.forward
parameter %0: f32[8,8] w
buffer %1: f32[] loss_sum.stage_0
batch %2: f32[4,8] x
saved %3: f32[4,8] saved.6
forward
  %6: f32[4,8] = aten.mm.default(%2, %0)
  %7: f32[] = aten.sum.default(%6, none)
update
  %8: f32[] = aten.add.Tensor(%1, %7, 1)
return
  new.loss_sum.stage_0 = %8 -> loss_sum.stage_0
  new.saved.6 = %6 -> saved.6
)";
// The backward of another microbatch of the same stage.
constexpr const char* kBackward = R"(graph stage_0.backward
parameter %0: f32[8,8] w
buffer %1: f32[8,8] grad.w
batch %2: f32[4,8] x
saved %3: f32[4,8] saved.6
backward
  %4: f32[4,8] = aten.tanh_backward.default(%2, %3)
  %5: f32[8,4]{1,8} views %4 = aten.t.default(%4)
  %6: f32[8,8] = aten.mm.default(%5, %2)
update
  %7: f32[8,8] = aten.add.Tensor(%1, %6, 1)
return
  new.grad.w = %7 -> grad.w
)";

// A backward that adds to two whole sums, and the reduction of the first one.
constexpr const char* kTwoSums = R"(graph stage_0.backward
buffer %0: f32[8] unsharded_grad.a
buffer %1: f32[8] unsharded_grad.b
batch %2: f32[8] x
backward
  %3: f32[8] = aten.add.Tensor(%0, %2, 1)
  %4: f32[8] = aten.mul.Tensor(%2, %2)
  %5: f32[8] = aten.add.Tensor(%1, %4, 1)
return
  new.unsharded_grad.a = %3 -> unsharded_grad.a
  new.unsharded_grad.b = %5 -> unsharded_grad.b
)";
constexpr const char* kReduceFirst = R"(graph stage_0.reduce
parameter %0: f32[4] a
buffer %1: f32[8] unsharded_grad.a
buffer %2: f32[4] reduced_grad.a
backward a
  %3: f32[4] = _c10d_functional.reduce_scatter_tensor.default(%1, "sum", 2, "dp")
  %4: f32[4] views %3 = _c10d_functional.wait_tensor.default(%3)
return
  new.reduced_grad.a = %4 -> reduced_grad.a
)";

std::vector<std::string> input_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Input& input : graph.inputs) names.push_back(input.name);
  return names;
}

}  // namespace

TEST_CASE("merged bodies share the inputs of state and have their own inputs of a microbatch") {
  const Graph merged = merge_bodies(verified_graph(kForward), verified_graph(kBackward));
  verify(merged, "merge");
  CHECK(merged.name == "stage_0.forward_with_stage_0.backward");
  CHECK(input_names(merged) == std::vector<std::string>{"w", "loss_sum.stage_0", "forward.x",
                                                        "forward.saved.6", "grad.w", "backward.x",
                                                        "backward.saved.6"});
  std::vector<std::string> updated;
  for (const Output& output : merged.outputs) updated.push_back(merged.inputs[output.updates].name);
  CHECK(updated == std::vector<std::string>{"loss_sum.stage_0", "forward.saved.6", "grad.w"});
  std::string ops;
  for (const Node& node : merged.nodes) ops += node.op + "\n";
  CHECK(ops ==
        "aten.mm.default\naten.sum.default\naten.tanh_backward.default\naten.t.default\naten.mm.default\n"
        "aten.add.Tensor\naten.add.Tensor\nreturn\n");
}

TEST_CASE("a chained reduction reads the new sum, and begins once it is complete") {
  const Graph chained = chain_bodies(verified_graph(kTwoSums), verified_graph(kReduceFirst));
  verify(chained, "chain");
  CHECK(input_names(chained) ==
        std::vector<std::string>{"unsharded_grad.a", "unsharded_grad.b", "x", "a", "reduced_grad.a"});
  REQUIRE(chained.nodes.size() == 6);
  const Node &sum = chained.nodes[0], &start = chained.nodes[1], &wait = chained.nodes[2];
  CHECK(sum.op == "aten.add.Tensor");
  CHECK(start.op == "_c10d_functional.reduce_scatter_tensor.default");
  CHECK(operand(start, 0) == sum.results[0]);
  CHECK(operand(chained.return_node(), 2) == wait.results[0]);
  CHECK(chained.outputs[2].updates == 4);
}

TEST_CASE("the name of an input of a pair identifies its body") {
  for (const bool of_forward : {true, false}) {
    const NameInPair name = read_name_in_pair(name_in_pair(of_forward, "saved.6"));
    CHECK(name.of_forward == of_forward);
    CHECK(name.name == "saved.6");
  }
}

// The bodies of a stage's graph: their nodes, and the values that they save and read.
#include "compiler/bodies/bodies.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "compiler/text/text.h"
#include "compiler/verify/verify.h"
#include "tests/compiler/ir/verified_graph.h"

using namespace rondo;
using namespace rondo::ir;

namespace {

// y = tanh(x w^T) and its backward, with a cast that depends on the weight alone.
constexpr const char* kStage = R"(graph stage_1
parameter %0: f32[64] w
buffer %1: f32[64] grad.w
saved %2: f32[4,8] sent_hidden
saved %3: f32[4,8] sent_gradient
batch %4: f32[4,8] x
batch %5: f32[4,8] dy

forward w
  %6: bf16[64] = aten._to_copy.default(%0, bf16, none, none, none, false, none)
forward
  %7: bf16[8,8] views %6 = aten.view.default(%6, [8, 8])
  %8: bf16[4,8] = aten._to_copy.default(%4, bf16, none, none, none, false, none)
  %9: bf16[8,8]{1,8} views %7 = aten.t.default(%7)
  %10: bf16[4,8] = aten.mm.default(%8, %9)
  %11: bf16[4,8] = aten.tanh.default(%10)
  %12: f32[4,8] = aten._to_copy.default(%11, f32, none, none, none, false, none)
backward
  %13: bf16[4,8] = aten._to_copy.default(%5, bf16, none, none, none, false, none)
  %14: bf16[4,8] = aten.tanh_backward.default(%13, %11)
  %15: bf16[4,8] = aten.mm.default(%14, %7)
  %16: f32[4,8] = aten._to_copy.default(%15, f32, none, none, none, false, none)
  %17: bf16[8,4]{1,8} views %14 = aten.t.default(%14)
  %18: bf16[8,8] = aten.mm.default(%17, %8)
  %19: bf16[64] views %18 = aten.view.default(%18, [64])
backward w
  %20: f32[64] = aten._to_copy.default(%19, f32, none, none, none, false, none)
update accumulate
  %21: f32[64] = aten.add.Tensor(%1, %20, 1)
return
  new.grad.w = %21 -> grad.w
  new.sent_hidden = %12 -> sent_hidden
  new.sent_gradient = %16 -> sent_gradient
)";

std::set<std::string> inputs(const Graph& graph) {
  std::set<std::string> names;
  for (const Input& input : graph.inputs) names.insert(input.name);
  return names;
}
std::set<std::string> outputs(const Graph& graph) {
  std::set<std::string> names;
  for (const Output& output : graph.outputs) names.insert(output.name);
  return names;
}
const Graph& graph_of(const std::vector<BodyGraph>& bodies, Body body) {
  return std::find_if(bodies.begin(), bodies.end(), [&](const BodyGraph& b) { return b.body == body; })
      ->graph;
}
using Names = std::set<std::string>;

}  // namespace

TEST_CASE("a body saves the values that later bodies read, and readers recreate views") {
  const Graph joint = verified_graph(kStage);
  const std::vector<BodyGraph> bodies = cut_into_bodies(
      joint, {.unshard = true, .divided_backward = true, .input_gradient = "new.sent_gradient"});
  REQUIRE(bodies.size() == 5);
  for (const BodyGraph& body : bodies) verify(body.graph, "cut");

  const Graph& unshard = graph_of(bodies, Body::unshard);
  CHECK(inputs(unshard) == Names{"w", "unsharded.6"});
  CHECK(outputs(unshard) == Names{"new.unsharded.6"});

  const Graph& forward = graph_of(bodies, Body::forward);
  CHECK(inputs(forward) == Names{"x", "unsharded.6", "sent_hidden", "saved.8", "saved.11"});
  CHECK(outputs(forward) == Names{"new.sent_hidden", "new.saved.8", "new.saved.11"});

  const Graph& whole = graph_of(bodies, Body::backward);
  CHECK(inputs(whole) == Names{"w", "grad.w", "dy", "sent_gradient", "unsharded.6", "saved.8", "saved.11"});
  CHECK(outputs(whole) == Names{"new.grad.w", "new.sent_gradient"});

  const Graph& input = graph_of(bodies, Body::backward_input);
  CHECK(inputs(input) == Names{"dy", "sent_gradient", "unsharded.6", "saved.11", "pending.14"});
  CHECK(outputs(input) == Names{"new.sent_gradient", "new.pending.14"});

  // The parameter of a gradient is an input, though no node reads it.
  const Graph& weight = graph_of(bodies, Body::backward_weight);
  CHECK(inputs(weight) == Names{"w", "grad.w", "saved.8", "pending.14"});
  CHECK(outputs(weight) == Names{"new.grad.w"});
}

TEST_CASE("the first forward gathers what the other bodies read") {
  const Graph joint = verified_graph(kStage);
  const std::vector<BodyGraph> bodies = cut_into_bodies(joint, {.unshard = true, .unshard_forward = true});
  REQUIRE(bodies.size() == 4);
  const Graph& first = graph_of(bodies, Body::unshard_forward);
  verify(first, "cut");
  CHECK(inputs(first) == Names{"w", "x", "sent_hidden", "unsharded.6", "saved.8", "saved.11"});
  CHECK(outputs(first) == Names{"new.sent_hidden", "new.unsharded.6", "new.saved.8", "new.saved.11"});
}

TEST_CASE("the weight part recomputes values that are cheap to compute from saved values") {
  const Graph joint = verified_graph(kStage);
  const std::vector<BodyGraph> bodies = cut_into_bodies(
      joint, {.divided_backward = true, .recompute_pending = true, .input_gradient = "new.sent_gradient"});
  // The gradient of tanh depends on the received gradient and on a saved value.
  const Graph& weight = graph_of(bodies, Body::backward_weight);
  verify(weight, "cut");
  CHECK(inputs(weight) == Names{"dy", "w", "grad.w", "saved.8", "saved.11"});
  CHECK(outputs(weight) == Names{"new.grad.w"});
  const auto count = [&](std::string_view op) {
    return std::count_if(weight.nodes.begin(), weight.nodes.end(),
                         [&](const Node& node) { return node.op == op; });
  };
  CHECK(count("aten.tanh_backward.default") == 1);
  CHECK(count("aten.mm.default") == 1);
  CHECK(outputs(graph_of(bodies, Body::backward_input)) == Names{"new.sent_gradient"});
  // A whole backward has each node once.
  const Graph& whole = graph_of(bodies, Body::backward);
  CHECK(std::count_if(whole.nodes.begin(), whole.nodes.end(),
                      [](const Node& node) { return node.op == "aten.tanh_backward.default"; }) == 1);
}

TEST_CASE("after an expensive op, the cut with the fewest bytes is pending") {
  // The weight part reads %21 [4, 8], which depends on the product %20 [4, 2].
  const Graph joint = verified_graph(R"(graph stage_1
buffer %0: f32[8,8] grad.w
saved %1: f32[4,2] sent_gradient
batch %2: f32[4,8] x
batch %3: f32[4,8] dy
batch %4: f32[8,2] v

backward
  %5: f32[4,2] = aten.mm.default(%3, %4)
  %6: f32[4,8] = aten.repeat.default(%5, [1, 4])
  %7: f32[4,8] = aten.exp.default(%6)
  %8: f32[4,2] = aten.mm.default(%7, %4)
  %9: f32[8,4]{1,8} views %7 = aten.t.default(%7)
  %10: f32[8,8] = aten.mm.default(%9, %2)
update accumulate
  %11: f32[8,8] = aten.add.Tensor(%0, %10, 1)
return
  new.grad.w = %11 -> grad.w
  new.sent_gradient = %8 -> sent_gradient
)");
  const auto pending = [&](bool recompute) {
    const std::vector<BodyGraph> bodies = cut_into_bodies(joint, {.whole_backward = false,
                                                                  .divided_backward = true,
                                                                  .recompute_pending = recompute,
                                                                  .input_gradient = "new.sent_gradient"});
    for (const BodyGraph& body : bodies) verify(body.graph, "cut");
    return inputs(graph_of(bodies, Body::backward_weight));
  };
  CHECK(pending(false) == Names{"grad.w", "x", "pending.7"});
  CHECK(pending(true) == Names{"grad.w", "x", "pending.5"});
}

TEST_CASE("without a gradient of the input, the gradients of weights are the whole backward") {
  const Graph joint = verified_graph(kStage);
  const std::vector<BodyGraph> bodies =
      cut_into_bodies(joint, {.whole_backward = false, .divided_backward = true, .input_gradient = ""});
  REQUIRE(bodies.size() == 2);  // and no unshard
  CHECK(bodies[0].body == Body::forward);
  CHECK(bodies[1].body == Body::backward_weight);
  CHECK(outputs(bodies[1].graph) == Names{"new.grad.w", "new.sent_gradient"});
}

TEST_CASE("a value that is sent and saved is copied") {
  std::string text = kStage;
  const std::string sent = "new.sent_hidden = %12";
  text.replace(text.find("bf16[4,8] = aten.tanh.default"), 9, "f32[4,8]");
  text.replace(text.find("%10: bf16[4,8]"), 14, "%10: f32[4,8]");
  text.replace(text.find("%13: bf16[4,8]"), 14, "%13: f32[4,8]");
  text.replace(text.find("%14: bf16[4,8]"), 14, "%14: f32[4,8]");
  text.replace(text.find("%17: bf16[8,4]"), 14, "%17: f32[8,4]");
  text.replace(text.find(sent), sent.size(), "new.sent_hidden = %11");
  const Graph joint = verified_graph(text);
  const std::vector<BodyGraph> bodies = cut_into_bodies(joint, {.input_gradient = "new.sent_gradient"});
  const Graph& forward = graph_of(bodies, Body::forward);
  verify(forward, "cut");
  const auto copies = std::count_if(forward.nodes.begin(), forward.nodes.end(),
                                    [](const Node& node) { return node.op == "aten.clone.default"; });
  CHECK(copies == 1);
}

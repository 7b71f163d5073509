// Tests groups of parameters with equal optimizer settings: how they are read, and how they
// are updated.
#include "config/schema/parameter_groups.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "compiler/ir/ir.h"
#include "support/error.h"
#include "tests/trainer/step/small_job.h"
#include "trainer/step/functions/optimizer.h"

namespace rondo {
namespace {

using at::Tensor;

const std::string kGroupsFlag = "--optimizer.parameter_groups=";

// Returns three parameters of four ones after one update with gradients of ones.
std::vector<Tensor> updated(const std::vector<UpdateGroup>& groups) {
  OptimizerState state;
  std::vector<Tensor> gradients;
  for (int i = 0; i < 3; ++i) {
    state.parameters.push_back(at::ones({4}));
    state.exp_avgs.push_back(at::full({4}, 0.0));
    state.exp_avg_sqs.push_back(at::full({4}, 0.0));
    gradients.push_back(at::ones({4}));
  }
  state.step = at::full({}, 0.0);
  optimizer_update(state, gradients, at::full({}, 0.1), at::full({}, 1.0), at::full({}, 0.0), groups);
  CHECK(state.step.item<float>() == 1);
  return state.parameters;
}

ParameterUpdate decaying(double weight_decay, double lr_factor = 1) {
  ParameterUpdate update;
  update.options.weight_decay = weight_decay;
  update.lr_factor = lr_factor;
  return update;
}

std::string broken(const std::string& entry) {
  std::string rule;
  read_parameter_groups({entry}, &rule);
  return rule;
}

std::ptrdiff_t updates_of(const SmallJob& job) {
  const StepProgram compiled = job.compile(ExecutorKind::replay);
  const auto& nodes = compiled.at("train_step").graph().nodes;
  return std::count_if(nodes.begin(), nodes.end(),
                       [](const ir::Node& node) { return node.op == "rondo.adamw_.default"; });
}

}  // namespace

TEST_CASE("an entry has names and settings, and a parameter belongs to the first entry that names it") {
  const auto groups =
      read_parameter_groups({"*norm*+tok_embeddings: weight_decay=0",
                             "layers.[0-1].attention|output: lr_factor=0.5 weight_decay=0.2"});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].weight_decay == 0.0);
  CHECK(groups[0].lr_factor == 1.0);
  CHECK(groups[1].weight_decay == 0.2);
  CHECK(groups[1].lr_factor == 0.5);
  CHECK(group_of(groups, "tok_embeddings.weight") == 0);
  CHECK(group_of(groups, "layers.1.attention.q_norm.weight") == 0);
  CHECK(group_of(groups, "layers.1.attention.wq.weight") == 1);
  CHECK(group_of(groups, "output.weight") == 1);
  CHECK(group_of(groups, "layers.2.attention.wq.weight") == 2);
}

TEST_CASE("invalid entries are refused with what they lack") {
  CHECK(broken("norm") == "must hold entries like *norm*: weight_decay=0, but \"norm\" is not one");
  CHECK(broken("norm:") == "must hold entries like *norm*: weight_decay=0, but \"norm:\" is not one");
  CHECK(broken("norm: decay=0") ==
        "must give weight_decay=NUMBER or lr_factor=NUMBER, at least 0, or optimizer=AdamW, but \"norm: "
        "decay=0\" has \"decay=0\"");
  for (const char* value : {"-1", "x", "", "1e999", "nan"})
    CHECK(broken(std::string("norm: lr_factor=") + value).starts_with("must give weight_decay=NUMBER"));
  CHECK(broken("a||b: lr_factor=1").starts_with("must hold names of parameters"));
  CHECK(broken(": lr_factor=1").starts_with("must hold names of parameters"));
  CHECK_THROWS_AS(load_config({kGroupsFlag + "no_such: lr_factor=1"}), Error);
}

TEST_CASE("each group is updated with its weight decay and its factor on the learning rate") {
  const std::vector<Tensor> apart =
      updated({{decaying(0.5), {0}}, {decaying(0.0), {1}}, {decaying(0.0, 0.5), {2}}});
  const auto first = [](const Tensor& x) { return x[0].item<float>(); };
  CHECK(std::abs(first(apart[0]) - (1 - 0.1 * 0.5 - 0.1)) < 1e-6);
  CHECK(std::abs(first(apart[1]) - (1 - 0.1)) < 1e-6);
  CHECK(std::abs(first(apart[2]) - (1 - 0.05)) < 1e-6);
  const std::vector<Tensor> alike = updated({{decaying(0.5), {0, 1, 2}}}),
                            divided = updated({{decaying(0.5), {0, 2}}, {decaying(0.5), {1}}});
  for (std::size_t i = 0; i < 3; ++i) CHECK(at::equal(alike[i], divided[i]));
}

TEST_CASE("a step has one update for all parameters with equal settings, and none overwrites a copy") {
  CHECK(updates_of(SmallJob("llama3", 1, {})) == 1);
  CHECK(updates_of(SmallJob("llama3", 2, {kGroupsFlag + "*norm*+tok_embeddings: weight_decay=0"})) == 2);
  CHECK(updates_of(SmallJob("llama3", 1, {kGroupsFlag + "*norm*: weight_decay=0.1"})) == 1);
  CHECK(updates_of(
            SmallJob("llama3", 1,
                     {kGroupsFlag +
                      "[\"*norm*: weight_decay=0\", \"*: weight_decay=0\", \"output: lr_factor=2\"]"})) == 1);
}

}  // namespace rondo

// Tests Muon in a step: what it updates, how well Newton-Schulz orthogonalizes, one update against
// plain products, and which mistakes of its exchange are refused.
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/diag_embed.h>
#include <ATen/ops/diagonal.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

#include "compiler/ops/op.h"
#include "compiler/verify/infer_sharding.h"
#include "compiler/verify/verify.h"
#include "support/error.h"
#include "tests/trainer/step/small_job.h"
#include "trainer/step/functions/newton_schulz.h"
#include "trainer/step/functions/step_context.h"

namespace rondo {
namespace {

using at::Tensor;
using Catch::Matchers::ContainsSubstring;

const std::string kMuon = "--optimizer.name=Muon";

StepContextPtr context_of(const SmallJob& job) {
  return make_step_context(job.decoder, {job.decoder}, {}, job.options);
}

std::set<std::string> inputs_of(const SmallJob& job, const std::string& prefix) {
  std::set<std::string> names;
  for (const StepInput& input : job.step.microbatch.inputs)
    if (input.name.starts_with(prefix)) names.insert(input.name.substr(prefix.size()));
  return names;
}

// Returns the sizes of what the update exchanges.
std::multiset<std::vector<std::int64_t>> exchanged(const ir::Graph& graph) {
  std::multiset<std::vector<std::int64_t>> sizes;
  for (const ir::Node& node : graph.nodes)
    if (node.phase == Phase::update && ir::is_collective(node, ir::CollectiveKind::all_to_all))
      sizes.insert(graph.value(ir::operand(node, 0)).type.sizes);
  return sizes;
}

std::string refusal_of(const ir::Graph& graph) {
  try {
    ir::shardings_agree(graph);
  } catch (const ir::VerifyError& error) {
    return error.what;
  }
  return "";
}

std::string problem_of(const std::vector<std::string>& flags) {
  try {
    SmallJob("llama3", 2, flags);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Newton-Schulz keeps the singular vectors and brings all singular values near one") {
  const auto [rows, columns] = GENERATE(std::pair{24, 96}, std::pair{96, 24}, std::pair{40, 41});
  Tensor matrices = at::randn({3, rows, columns}, at::kDouble);
  const auto [u, s, vh] = at::linalg_svd(matrices, /*full_matrices=*/false);
  // Any condition that five iterations manage: from the largest possible value down to a hundredth.
  const Tensor spread = at::exp(at::randn_like(s) * 0.5);
  matrices = at::matmul(u * spread.unsqueeze(1), vh) * 1e-6;
  const Tensor values = at::matmul(at::matmul(u.mT(), orthogonalized(matrices, 5)), vh.mT());
  const Tensor diagonal = at::diagonal(values, 0, 1, 2);
  CHECK(at::abs(values - at::diag_embed(diagonal)).max().item<double>() < 1e-10);
  CHECK(diagonal.min().item<double>() > 0.68);
  CHECK(diagonal.max().item<double>() < 1.14);
}

TEST_CASE("five iterations bring a singular value between 0.68 and 1.21 from 0.2 % of the norm on") {
  constexpr std::int64_t kCount = 2000;
  const Tensor values = at::exp(at::linspace(std::log(0.002), 0, kCount, at::kDouble));
  const Tensor others = at::sqrt(1 - values * values);  // so that the norm is 1
  const Tensor results =
      orthogonalized(at::diag_embed(at::stack({values, others}, 1)), 5).select(1, 0).select(1, 0);
  CHECK(results.min().item<double>() > 0.68);
  CHECK(results.max().item<double>() < 1.21);
  CHECK(results.max().item<double>() > 1.2);  // of values about 0.4 %
}

TEST_CASE("Newton-Schulz of zeros is zeros, also beside other matrices") {
  const Tensor matrices = at::cat({at::zeros({1, 8, 6}), at::randn({1, 8, 6})});
  const Tensor results = orthogonalized(matrices, 5);
  CHECK(at::equal(results[0], at::zeros({8, 6})));
  CHECK(at::abs(results[1]).max().item<float>() > 0.1);
}

TEST_CASE("matrices of hidden layers have a momentum, and all other parameters two moments") {
  const SmallJob llama("llama3", 1, {kMuon});
  const auto momentums = inputs_of(llama, "momentum."), firsts = inputs_of(llama, "exp_avg.");
  CHECK(momentums.size() == 14);
  CHECK(firsts == inputs_of(llama, "exp_avg_sq."));
  CHECK(momentums.contains("layers.1.attention.wq.weight"));
  for (const char* name :
       {"tok_embeddings.weight", "output.weight", "norm.weight", "layers.0.ffn_norm.weight"})
    CHECK(firsts.contains(name));
  CHECK(firsts.size() + momentums.size() == llama.decoder->parameters().size());
  const SmallJob experts("deepseek_v3", 1, {kMuon});
  CHECK(inputs_of(experts, "momentum.").contains("layers.1.moe.experts.w1.weight"));
  CHECK(inputs_of(experts, "exp_avg.").contains("layers.1.moe.router.gate.weight"));
  const SmallJob chosen("llama3", 1, {kMuon, "--optimizer.parameter_groups=*.wk+*.wv: optimizer=AdamW"});
  CHECK(inputs_of(chosen, "momentum.").size() == 10);
  CHECK(inputs_of(chosen, "exp_avg.").contains("layers.0.attention.wk.weight"));
}

TEST_CASE("biases of experts are no matrices") {
  const auto parameters =
      make_decoder(
          "gpt_oss",
          load_config({"--job.config_file=" RONDO_SOURCE_DIR "/configs/gpt_oss_debug.toml"}).model.sizes)
          ->parameters();
  std::set<std::string> of_layer;
  for (const ParameterRule& rule : parameters)
    if (rule.name.starts_with("layers.0.") && rule.is_hidden_matrix()) of_layer.insert(rule.name.substr(9));
  const std::set<std::string> expected = {"attention.wq.weight",        "attention.wk.weight",
                                          "attention.wv.weight",        "attention.wo.weight",
                                          "moe.experts.gate_up.weight", "moe.experts.down.weight"};
  CHECK(of_layer == expected);
}

TEST_CASE("a step updates a matrix as plain products do") {
  const auto [matches, scale] =
      GENERATE(std::pair{true, 0.2 * std::sqrt(12.0)}, std::pair{false, std::sqrt(2.0)});
  const MuonUpdate muon{.matches_adamw = matches, .dtype = at::kDouble};
  ParameterUpdate update;
  update.options.weight_decay = 0.1;
  update.muon = muon;
  const FlatShard whole({12, 6});
  UpdateGroup group{update, {0, 1}};
  group.pieces = matrix_pieces(whole, {}, 0, 1);
  group.scale = scale_of_muon(muon, 12, 6);
  OptimizerState state;
  std::vector<Tensor> gradients, parameters, momentums;
  for (int i = 0; i < 2; ++i) {
    parameters.push_back(at::randn({72}, at::kDouble));
    momentums.push_back(at::randn({72}, at::kDouble));
    gradients.push_back(at::randn({72}, at::kDouble));
    state.parameters.push_back(parameters.back().clone());
    state.momentums.push_back(momentums.back().clone());
  }
  state.step = at::full({}, 0.0F);
  optimizer_update(state, gradients, at::full({}, 0.25F), at::full({}, 2.0F), at::full({}, 0.0F), {group});
  for (std::size_t i = 0; i < 2; ++i) {
    const Tensor g = gradients[i] / 2, m = 0.95 * momentums[i] + 0.05 * g;
    CHECK(at::allclose(state.momentums[i], m, 1e-14, 1e-14));
    Tensor x = (0.05 * g + 0.95 * m).view({12, 6}).t();
    x = x / at::sqrt((x * x).sum());
    for (int k = 0; k < 5; ++k) {
      const Tensor a = at::matmul(x, x.t());
      x = 3.4445 * x + at::matmul(-4.7750 * a + 2.0315 * at::matmul(a, a), x);
    }
    const Tensor expected = parameters[i].view({12, 6}) * (1 - 0.25 * 0.1) - 0.25 * scale * x.t();
    CHECK(at::allclose(state.parameters[i], expected.reshape({72}), 1e-12, 1e-12));
  }
}

TEST_CASE("a step that is not finite changes nothing of Muon's state") {
  ParameterUpdate update;
  update.muon = MuonUpdate{};
  UpdateGroup group{update, {0}};
  group.pieces = matrix_pieces(FlatShard({4, 3}), {}, 0, 1);
  OptimizerState state{{at::randn({12})}, {}, {}, {at::randn({12})}, at::full({}, 3.0F)};
  const Tensor parameter = state.parameters[0].clone(), momentum = state.momentums[0].clone();
  optimizer_update(state, {at::full({12}, std::nanf(""))}, at::full({}, 0.1F), at::full({}, 1.0F),
                   at::full({}, 1.0F), {group});
  CHECK(at::equal(state.parameters[0], parameter));
  CHECK(at::equal(state.momentums[0], momentum));
  CHECK(state.step.item<float>() == 3);
}

TEST_CASE("ranks share matrices of one size: each has as many as another, and exchanges its bytes twice") {
  const SmallJob job("llama3", 4, {kMuon, "--parallelism.tensor_parallel_degree=2"});
  std::int64_t stored = 0, most = 0;
  for (const UpdateGroup& group : context_of(job)->update_groups) {
    if (!group.update.muon) continue;
    const auto count = std::ssize(group.parameters), ranks = group.pieces.holders.ranks;
    CHECK(ranks == 4);
    most += (count + ranks - 1) / ranks * ranks * group.pieces.stored;
    stored += count * group.pieces.stored;
  }
  const StepProgram compiled = job.compile(ExecutorKind::replay);
  std::int64_t elements = 0;
  const auto pieces = exchanged(compiled.at("train_step").graph());
  for (const auto& sizes : pieces) elements += sizes[0] * sizes[1] * sizes[2];
  CHECK(elements == 2 * most);
  CHECK(most < 3 * stored);
  // w1 and w3 are four matrices of one size; wq, wk and wv, wo and w2 fill a half of the ranks.
  CHECK(pieces.size() == 10);
}

TEST_CASE("a group holds few enough matrices for its memory") {
  UpdateGroup group;
  group.update.muon = MuonUpdate{.dtype = at::kBFloat16};
  group.pieces = {.holders = {"dp_shard", 8, 1}, .rows = 14336, .columns = 4096};
  const UpdateGroup alone = group;
  while (group.takes(alone)) group.parameters.push_back(group.parameters.size());
  CHECK(group.parameters.size() == 16);  // two of 112 MiB a rank
  UpdateGroup other = alone;
  other.pieces.columns = 1024;
  group.parameters.clear();
  CHECK_FALSE(group.takes(other));
}

TEST_CASE("an exchange over other ranks, and one that is left out, are refused before a step runs") {
  const SmallJob job(
      "llama3", 8,
      {kMuon, "--parallelism.data_parallel_replicate_degree=2", "--parallelism.tensor_parallel_degree=2"});
  const StepProgram compiled = job.compile(ExecutorKind::interpreter);
  const ir::Graph& graph = compiled.at("train_step").graph();
  REQUIRE(refusal_of(graph).empty());
  const std::string own = context_of(job)->update_groups.back().pieces.holders.name;
  int exchanges = 0;
  for (ir::NodeIndex i = 0; i < graph.node_count(); ++i) {
    if (graph.nodes[i].phase != Phase::update ||
        !ir::is_collective(graph.nodes[i], ir::CollectiveKind::all_to_all))
      continue;
    ++exchanges;
    for (const ir::MeshGroup& group : graph.mesh.groups) {
      ir::Graph mutant = graph;
      auto& name = std::get<std::string>(mutant.nodes[i].args[3]);
      const auto axes_of = [&](const std::string& of) {
        return std::ranges::find(graph.mesh.groups, of, &ir::MeshGroup::name)->axes;
      };
      if (axes_of(name) == group.axes) continue;
      name = group.name;
      INFO(group.name);
      CHECK(!refusal_of(mutant).empty());
    }
    ir::Graph mutant = graph;
    const ir::ValueId from = ir::operand(graph.nodes[i], 0);
    for (ir::Node& node : mutant.nodes)
      for (ir::Argument& arg : node.args)
        if (auto* use = std::get_if<ir::Use>(&arg);
            use != nullptr && node.op == ir::kWaitTensor && use->value == graph.nodes[i].results[0]) {
          const ir::ValueId result = node.results[0];
          for (ir::Node& reader : mutant.nodes)
            for (ir::Argument& read : reader.args)
              if (auto* of = std::get_if<ir::Use>(&read); of != nullptr && of->value == result)
                of->value = from;
        }
    CHECK(!refusal_of(mutant).empty());
  }
  CHECK(exchanges > 4);
}

TEST_CASE("what Muon does not do is refused with what to do instead") {
  CHECK_THAT(
      problem_of({kMuon, "--optimizer.early_step_in_backward=true", "--training.max_norm=inf"}),
      ContainsSubstring("set optimizer.early_step_in_backward = false, or optimizer.name = \"AdamW\""));
  CHECK_THAT(problem_of({kMuon, "--training.enable_cpu_offload=true"}),
             ContainsSubstring("set training.enable_cpu_offload = false, or optimizer.name = \"AdamW\""));
  CHECK_THAT(problem_of({"--optimizer.parameter_groups=*.wk: optimizer=AdamW"}),
             ContainsSubstring("remove it, or set optimizer.name = \"Muon\""));
  CHECK_THAT(problem_of({kMuon, "--optimizer.parameter_groups=*.wk: optimizer=Muon"}),
             ContainsSubstring("or optimizer=AdamW, but"));
  const std::string of_norms = "--optimizer.parameter_groups=*norm*+output: weight_decay=0";
  CHECK(problem_of({kMuon, of_norms}).empty());
  CHECK_THAT(
      problem_of({kMuon, of_norms + " optimizer=AdamW"}),
      ContainsSubstring("\"*norm*+output\" has no matrix of a hidden layer, and AdamW updates all others "
                        "anyway; remove optimizer=AdamW from it"));
  CHECK_THAT(problem_of({kMuon, "--optimizer.parameter_groups=layers.*: optimizer=AdamW"}),
             ContainsSubstring("leaves Muon no matrix; name fewer, or set optimizer.name = \"AdamW\""));
}

}  // namespace rondo

// Tests that stochastic rounding does not depend on the layout: every rank's update of its shards
// has the bits of one rank's update of the whole parameters.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <utility>

#include "compiler/ops/op.h"
#include "compiler/text/text.h"
#include "models/parts/initialize.h"
#include "tests/trainer/step/small_job.h"
#include "trainer/step/functions/step_context.h"

namespace rondo {
namespace {

using at::Tensor;

// A parameter, its moments and its gradient.
using Quantities = std::array<Tensor, 4>;
// Those of the whole parameters, flattened, by name.
using Whole = std::map<std::string, Quantities>;

struct Dtypes {
  at::ScalarType parameter, moments;
};

Whole random_state(const Decoder& decoder, const Dtypes& dtypes) {
  Whole whole;
  for (const ParameterRule& rule : decoder.parameters()) {
    const std::int64_t count = element_count(rule.sizes);
    whole[rule.name] = {
        at::randn({count}).to(dtypes.parameter), (at::randn({count}) * 0.1).to(dtypes.moments),
        (at::rand({count}) * 0.1).to(dtypes.moments), at::randn({count}).to(dtypes.parameter)};
  }
  return whole;
}

// Updates the elements of a rank three times, and writes them to `after`.
void update_shards(const SmallJob& job, std::int64_t rank, const Whole& before, Whole& after) {
  const StepContextPtr step =
      make_step_context(job.decoder, {job.decoder}, {}, step_options(job.config, job.layout, rank));
  std::vector<Quantities> shards;
  for (std::size_t i = 0; i < step->parameters.size(); ++i) {
    Quantities& own = shards.emplace_back();
    const FlatShard& place = step->placements[i].shard;
    const Quantities& whole = before.at(step->parameters[i].name);
    for (std::size_t q = 0; q < own.size(); ++q) {
      own[q] = at::zeros({place.stored()}, whole[q].options());
      place.for_each_run([&](const ElementRun& run) {
        own[q].narrow(0, run.in_shard, run.count).copy_(whole[q].narrow(0, run.in_whole, run.count));
      });
    }
  }
  OptimizerState state;
  Tensors gradients;
  for (const Quantities& own : shards) {
    state.parameters.push_back(own[0]), state.exp_avgs.push_back(own[1]);
    state.exp_avg_sqs.push_back(own[2]), gradients.push_back(own[3]);
  }
  state.step = at::full({}, 6.0f);
  for (int i = 0; i < 3; ++i)
    optimizer_update(state, gradients, at::full({}, 1e-3f), at::full({}, 1.0f), at::full({}, 0.0f),
                     step->update_groups);
  for (std::size_t i = 0; i < shards.size(); ++i)
    step->placements[i].shard.for_each_run([&](const ElementRun& run) {
      for (std::size_t q = 0; q < shards[i].size(); ++q)
        after.at(step->parameters[i].name)[q]
            .narrow(0, run.in_whole, run.count)
            .copy_(shards[i][q].narrow(0, run.in_shard, run.count));
    });
}

Whole updated(const SmallJob& job, std::int64_t ranks, const Whole& before) {
  Whole after;
  for (const auto& [name, quantities] : before)
    for (std::size_t q = 0; q < quantities.size(); ++q)
      after[name][q] = at::empty(quantities[q].sizes(), quantities[q].options());
  for (std::int64_t rank = 0; rank < ranks; ++rank) update_shards(job, rank, before, after);
  return after;
}

bool same(const Whole& a, const Whole& b) {
  for (const auto& [name, quantities] : a)
    for (std::size_t q = 0; q < quantities.size(); ++q)
      if (!at::equal(quantities[q], b.at(name)[q])) return false;
  return true;
}

}  // namespace

TEST_CASE("stochastic updates have the same bits in every layout, and other bits than updates to nearest") {
  const std::string p = "--parallelism.",
                    data = p + "data_parallel_shard_degree=", copies = p + "data_parallel_replicate_degree=",
                    tensor = p + "tensor_parallel_degree=", expert = p + "expert_parallel_degree=",
                    expert_tensor = p + "expert_tensor_parallel_degree=";
  struct Case {
    std::string model;
    std::int64_t ranks;
    SmallJob::Flags flags;
  };
  const Case c = GENERATE_COPY(
      values<Case>({{"llama3", 2, {data + "2"}},
                    {"llama3", 3, {data + "3"}},
                    {"llama3", 2, {tensor + "2"}},
                    {"llama3", 4, {data + "2", tensor + "2"}},
                    {"llama3", 4, {copies + "2", data + "2"}},
                    {"deepseek_v3", 4, {data + "4", expert + "4"}},
                    {"deepseek_v3", 4, {data + "2", tensor + "2", expert + "2", expert_tensor + "2"}}}));
  const bool of_moments = GENERATE(false, true);
  const std::string bf16 =
      of_moments ? "--optimizer.implementation=fused_opt_states_bf16" : "--training.dtype=bfloat16";
  SmallJob::Flags flags = c.flags;
  flags.push_back(bf16);
  const SmallJob one(c.model, 1, {bf16}), several(c.model, c.ranks, flags),
      nearest(c.model, 1, {bf16, "--optimizer.bf16_rounding=nearest"}),
      other_seed(c.model, 1, {bf16, "--debug.seed=43"});
  const Whole before = random_state(*one.decoder, {of_moments ? at::kFloat : at::kBFloat16, at::kBFloat16});
  const Whole expected = updated(one, 1, before);
  CHECK(same(updated(several, c.ranks, before), expected));
  CHECK_FALSE(same(updated(nearest, 1, before), expected));
  CHECK_FALSE(same(updated(other_seed, 1, before), expected));
}

TEST_CASE("a graph's text has the draws of stochastic updates, which passes keep") {
  for (const bool stochastic : {false, true}) {
    const SmallJob job("llama3", 2,
                       {"--training.dtype=bfloat16", "--parallelism.tensor_parallel_degree=2",
                        stochastic ? "--debug.seed=7" : "--optimizer.bf16_rounding=nearest"});
    const StepProgram compiled = job.compile(ExecutorKind::replay);
    const ir::Graph& graph = compiled.at("train_step").graph();
    const std::string text = ir::print(graph);
    CHECK(ir::print(ir::parse(text, "step.ir")) == text);
    bool found = false;
    for (const ir::Node& node : graph.nodes) {
      if (node.op != "rondo.adamw_.default") continue;
      const auto* draws = ir::argument<std::vector<std::int64_t>>(node, 13);
      REQUIRE(draws != nullptr);
      found = true;
      CHECK(draws->size() == (stochastic ? 5 * job.decoder->parameters().size() : 0));
      if (stochastic) CHECK(draws->at(0) == rounding_stream(7, job.decoder->parameters()[0].name));
    }
    CHECK(found);
  }
}

}  // namespace rondo

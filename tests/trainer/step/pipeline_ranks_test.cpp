// Tests the ranks of a pipeline: their groups, rows, state and types of sharding.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>

#include "config/derived/pipeline_layout.h"
#include "config/load.h"
#include "parallel/groups/messages.h"
#include "trainer/step/from_config.h"
#include "trainer/step/functions/placement.h"
#include "trainer/step/train_state.h"

namespace rondo {
namespace {

using Flags = std::vector<std::string>;

JobConfig config_of(const std::string& model, const Flags& flags) {
  Flags job_flags = {"--job.config_file=" RONDO_SOURCE_DIR "/configs/" + model + "_debug.toml",
                     "--training.local_batch_size=4", "--training.seq_len=32", "--validation.enable=false"};
  job_flags.insert(job_flags.end(), flags.begin(), flags.end());
  return load_config(job_flags);
}

const Flags kTwoStages = {"--parallelism.pipeline_parallel_degree=2"};

// Returns lines "dp 0 1", one per group.
std::string groups_of(const JobConfig& config, std::int64_t ranks, int rank) {
  std::string text;
  const Layout layout = resolve_layout(config, ranks);
  for (const GroupMembers& group : process_groups(config, layout, pipeline_layout(config, layout), rank)) {
    text += group.name;
    for (const std::int64_t member : group.ranks) text += " " + std::to_string(member);
    text += "\n";
  }
  return text;
}

std::string edge(int sender, int receiver) {
  return edge_name(sender, receiver) + " " + std::to_string(sender) + " " + std::to_string(receiver) + "\n";
}

TEST_CASE("a rank has a group for each of its edges of the pipeline, in the same order on all ranks") {
  const JobConfig config = config_of("llama3", kTwoStages);
  CHECK(groups_of(config, 4, 0) == "dp 0 1\n" + edge(0, 2) + edge(2, 0));
  CHECK(groups_of(config, 4, 2) == "dp 2 3\n" + edge(0, 2) + edge(2, 0));
  CHECK(groups_of(config, 4, 3) == "dp 2 3\n" + edge(1, 3) + edge(3, 1));
  CHECK(groups_of(config, 2, 0) == edge(0, 1) + edge(1, 0));

  // In a loop the last rank sends to the first one; rank 1 of three has no such edge.
  const JobConfig looped = config_of("llama3", {"--parallelism.pipeline_parallel_degree=3",
                                                "--parallelism.pipeline_parallel_schedule=Interleaved1F1B",
                                                "--parallelism.pipeline_parallel_layers_per_stage=1",
                                                "--model.n_layers=4", "--training.local_batch_size=6"});
  CHECK(groups_of(looped, 3, 1) == edge(0, 1) + edge(1, 0) + edge(1, 2) + edge(2, 1));
  CHECK(groups_of(looped, 3, 2) == edge(0, 2) + edge(1, 2) + edge(2, 0) + edge(2, 1));
}

TEST_CASE("ranks of a pipeline read the same rows of microbatches as without a pipeline") {
  const auto read = [](const Flags& flags, std::int64_t ranks, int rank) {
    const JobConfig config = config_of("llama3", flags);
    RankEnvironment environment;
    environment.rank = rank;
    environment.world_size = static_cast<int>(ranks);
    const Layout layout = resolve_layout(config, ranks);
    const TrainStepOptions step = step_options(config, layout, rank);
    const DataOptions data = training_data(config, layout, environment);
    CHECK(step.local_batch_size == data.local_batch);
    CHECK(step.microbatches == data.accumulation);
    return std::vector<std::int64_t>{data.local_batch, data.accumulation, data.dp_rank, data.dp_size};
  };
  const Flags without = {"--training.local_batch_size=2", "--training.global_batch_size=24"};
  const Flags with = {"--parallelism.pipeline_parallel_degree=2",
                      "--parallelism.pipeline_parallel_microbatch_size=2", "--training.global_batch_size=24"};
  for (const int rank : {0, 1, 2}) {
    CHECK(read(without, 3, rank) == std::vector<std::int64_t>{2, 4, rank, 3});
    CHECK(read(with, 6, rank) == read(without, 3, rank));
    CHECK(read(with, 6, rank + 3) == read(without, 3, rank));
  }
}

// Returns the state of each rank of the layout, of a function with the inputs of an update.
std::vector<std::vector<StatePart>> state_of_ranks(const JobConfig& config, std::int64_t ranks) {
  const Layout layout = resolve_layout(config, ranks);
  const PipelineLayout pipeline = pipeline_layout(config, layout).value();
  const auto model = make_decoder(config.model.name, config.model.sizes);
  std::vector<std::vector<StatePart>> by_rank;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    StepFunction update;
    const auto add = [&](const std::string& name, ir::InputKind kind, std::vector<std::int64_t> sizes) {
      update.inputs.push_back({name, kind, ir::contiguous(ir::DType::f32, std::move(sizes))});
    };
    for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
      if (pipeline.program.rank_of_stage[stage] != layout.mesh.coordinate(rank, Axis::pp)) continue;
      const auto part = model->stage(pipeline.stages[stage]);
      for (const ParameterRule& rule : part->parameters()) {
        const std::int64_t stored = shard_placement_of(rule, layout.mesh, rank).shard.stored();
        add(rule.name, ir::InputKind::parameter, {stored});
        add("exp_avg." + rule.name, ir::InputKind::optimizer, {stored});
      }
      for (const ExpertBias& bias : part->expert_biases())
        add(bias.name, ir::InputKind::buffer, {bias.experts});
    }
    add("step", ir::InputKind::optimizer, {});
    by_rank.push_back(TrainState(*model, {&update}, 1, layout.mesh, static_cast<int>(rank), 32).parts());
  }
  return by_rank;
}

TEST_CASE("each tensor of a state divided over stages is saved once, by ranks that have it") {
  const JobConfig config =
      config_of("deepseek_v3", {"--parallelism.pipeline_parallel_degree=2",
                                "--parallelism.pipeline_parallel_schedule=Interleaved1F1B"});
  const auto model = make_decoder(config.model.name, config.model.sizes);
  std::map<std::string, std::set<int>> has, saves;
  const auto ranks = state_of_ranks(config, 4);
  for (int rank = 0; rank < 4; ++rank)
    for (const StatePart& part : ranks[static_cast<std::size_t>(rank)]) {
      has[part.name].insert(rank);
      if (part.is_writer) saves[part.name].insert(rank);
      CHECK(part.whole == (part.name == "optimizer/step" || part.name.ends_with("expert_bias")));
    }
  const std::set<int> first = {0, 1}, second = {2, 3};
  for (const ParameterRule& rule : model->parameters()) {
    INFO(rule.name);
    const std::set<int>& of_model = has.at("model/" + rule.name);
    CHECK((of_model == first || of_model == second));
    CHECK(has.at("optimizer/exp_avg." + rule.name) == of_model);
    CHECK(saves.at("model/" + rule.name) == of_model);  // one shard per rank
  }
  CHECK(has.at("model/tok_embeddings.weight") == first);
  CHECK(has.at("model/output.weight") == second);
  REQUIRE_FALSE(model->expert_biases().empty());
  std::set<int> speakers;
  for (const ExpertBias& bias : model->expert_biases()) {
    const std::set<int>& of_bias = has.at("model/" + bias.name);
    CHECK((of_bias == first || of_bias == second));
    CHECK(saves.at("model/" + bias.name) == std::set<int>{*of_bias.begin()});
    speakers.insert(*of_bias.begin());
  }
  CHECK(speakers == std::set<int>{0, 2});
  CHECK(has.at("optimizer/step").size() == 4);
  CHECK(saves.at("optimizer/step") == std::set<int>{0});
}

TEST_CASE("types of sharding have the ranks of one stage, also for a group of all ranks") {
  const InputSharding stage(Mesh(8, {1, 2, 2, 1, 2}, 2)), whole(Mesh(16, {2, 2, 2, 1, 2}, 2));
  CHECK((whole.mesh().axes == stage.mesh().axes));
  CHECK_FALSE(whole.mesh().axes.empty());
  const auto axes_of = [](const InputSharding& sharding, const std::string& name) {
    const auto& groups = sharding.mesh().groups;
    const auto match = std::find_if(groups.begin(), groups.end(),
                                    [&](const ir::MeshGroup& group) { return group.name == name; });
    return match == groups.end() ? std::vector<std::int32_t>{-1} : match->axes;
  };
  CHECK(axes_of(whole, "pp_dp_tp") == axes_of(stage, "dp_tp"));
  CHECK(axes_of(whole, "dp_shard") == axes_of(stage, "dp_shard"));
  CHECK(InputSharding(Mesh(2, {2, 1, 1, 1, 1})).mesh().axes.empty());
  CHECK(InputSharding(Mesh(2, {2, 1, 1, 1, 1})).follows_layout());
}

}  // namespace
}  // namespace rondo

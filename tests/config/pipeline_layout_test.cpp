// What the keys of pipelines come to: stages, schedules, microbatches, and what is refused.
#include "config/derived/pipeline_layout.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "config/derived/compile_options.h"
#include "config/dump.h"
#include "parallel/pipeline/csv.h"
#include "parallel/pipeline/layers.h"
#include "parallel/pipeline/schedules.h"
#include "tests/config/config_texts.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Words = std::vector<std::string>;

// Keys of [parallelism] without pipeline_parallel_, or whole flags.
Words flags_of(const Words& words) {
  Words flags;
  for (const std::string& word : words)
    flags.push_back(word.starts_with("--")
                        ? word
                        : (word.find("_parallel_") == word.npos && !word.starts_with("module_fqns") &&
                                   !word.starts_with("fsdp") && !word.starts_with("expert") &&
                                   !word.starts_with("overlapped")
                               ? "--parallelism.pipeline_parallel_"
                               : "--parallelism.") +
                              word);
  return flags;
}

// Six layers, eight sequences a rank.
PipelineLayout layout_of(const Words& words, std::int64_t ranks = 2) {
  const JobConfig config = load_config(flags_of(words));
  return pipeline_layout(config, resolve_layout(config, ranks)).value();
}

// As Megatron writes it; layers must follow each other.
std::string text_of(const std::vector<StagePart>& parts) {
  std::vector<pipeline::StageLayers> stages;
  std::int64_t next = 0;
  for (const StagePart& part : parts) {
    CHECK(part.first_layer == next);
    next = part.end();
    stages.push_back({part.embedding, part.head, static_cast<std::int32_t>(part.layers), 0});
  }
  return print_layout(stages);
}

std::string stages_of(const Words& words, std::int64_t ranks = 2) {
  return text_of(layout_of(words, ranks).stages);
}

std::string message(const Words& words) { return message_of("", flags_of(words)); }

std::string csv_of(const std::string& schedule, const pipeline::PipelineShape& shape) {
  return to_csv(make_program(pipeline::schedule_named(schedule), shape));
}

TEST_CASE("the flags of torchtitan's own runs with pipelines give their stages and microbatches") {
  struct Flavor {
    const char* model;
    Words flags;
    std::int64_t ranks;
    const char* mesh;
    const char* stages;
    std::vector<std::int32_t> rank_of_stage;
  };
  const std::vector<std::int32_t> two = {0, 1}, looped = {0, 1, 0, 1}, v = {0, 1, 1, 0},
                                  looped_4 = {0, 1, 2, 3, 0, 1, 2, 3};
  const Flavor flavors[] = {
      {"llama3", {"degree=4", "schedule=InterleavedZeroBubble"}, 4, "pp 4", "E|(t|)*6L", looped_4},
      {"llama3", {"degree=2", "schedule=ZBVZeroBubble"}, 2, "pp 2", "Et|(t*2|)*2tL", v},
      {"llama3", {"degree=2", "schedule=1F1B", "data_parallel_shard_degree=1"}, 2, "pp 2", "Et*3|t*3L", two},
      {"llama3", {"degree=2", "schedule=GPipe", "data_parallel_shard_degree=1"}, 2, "pp 2", "Et*3|t*3L", two},
      {"llama3",
       {"degree=2", "schedule=1F1B", "layers_per_stage=4", "data_parallel_shard_degree=2"},
       4,
       "pp 2 x dp_shard 2",
       "Et*3|t*3L",
       two},
      {"llama3", {"degree=2", "tensor_parallel_degree=2"}, 4, "pp 2 x tp 2", "Et*3|t*3L", two},
      {"llama3",
       {"degree=2", "data_parallel_shard_degree=2", "tensor_parallel_degree=2"},
       8,
       "pp 2 x dp_shard 2 x tp 2",
       "Et*3|t*3L",
       two},
      {"llama3", {"degree=4", "schedule=Interleaved1F1B"}, 4, "pp 4", "E|(t|)*6L", looped_4},
      {"llama3",
       {"degree=4", "schedule=Interleaved1F1B", "layers_per_stage=1"},
       4,
       "pp 4",
       "E|(t|)*6L",
       looped_4},
      {"llama3",
       {"degree=2", "schedule=Interleaved1F1B", "tensor_parallel_degree=2", "context_parallel_degree=2",
        "--validation.enable=true"},
       8,
       "pp 2 x cp 2 x tp 2",
       "Et|(t*2|)*2tL",
       looped},
      {"deepseek_v3",
       {"degree=2", "expert_parallel_degree=2", "schedule=DualPipeV", "--activation_checkpoint.mode=none"},
       4,
       "pp 2 x dp_shard 2, experts ep 2",
       "Et|(t*2|)*2tL",
       v},
      {"deepseek_v3",
       {"degree=2", "schedule=Interleaved1F1B", "data_parallel_shard_degree=2", "tensor_parallel_degree=2",
        "expert_parallel_degree=4", "expert_tensor_parallel_degree=1"},
       8,
       "pp 2 x dp_shard 2 x tp 2, experts ep 4",
       "Et|(t*2|)*2tL",
       looped},
      {"deepseek_v3",
       {"degree=2", "schedule=Interleaved1F1B", "data_parallel_shard_degree=2", "tensor_parallel_degree=2",
        "expert_parallel_degree=2", "expert_tensor_parallel_degree=2"},
       8,
       "pp 2 x dp_shard 2 x tp 2, experts ep 2 x etp 2",
       "Et|(t*2|)*2tL",
       looped},
      {"deepseek_v3",
       {"degree=2", "schedule=Interleaved1F1B", "data_parallel_shard_degree=4", "expert_parallel_degree=4",
        "--training.document_attention=true"},
       8,
       "pp 2 x dp_shard 4, experts ep 4",
       "Et|(t*2|)*2tL",
       looped},
      {"llama4",
       {"degree=2", "schedule=Interleaved1F1B", "data_parallel_shard_degree=2", "tensor_parallel_degree=2",
        "expert_parallel_degree=4", "expert_tensor_parallel_degree=1"},
       8,
       "pp 2 x dp_shard 2 x tp 2, experts ep 4",
       "Et|t*2|t|L",
       looped},
      {"llama4",
       {"degree=2", "schedule=Interleaved1F1B", "data_parallel_shard_degree=2", "tensor_parallel_degree=2",
        "expert_parallel_degree=2", "expert_tensor_parallel_degree=2"},
       8,
       "pp 2 x dp_shard 2 x tp 2, experts ep 2 x etp 2",
       "Et|t*2|t|L",
       looped},
  };
  for (const Flavor& flavor : flavors) {
    Words flags = flags_of(flavor.flags);
    flags.push_back("--model.name=" + std::string(flavor.model));
    CAPTURE(flags);
    const JobConfig config = load_config(flags);
    const Layout layout = resolve_layout(config, flavor.ranks);
    CHECK(layout.mesh.text() == flavor.mesh);
    CHECK(layout.microbatches == 8);
    CHECK(layout.microbatch_size == 1);
    const PipelineLayout pipeline = pipeline_layout(config, layout).value();
    CHECK(text_of(pipeline.stages) == flavor.stages);
    CHECK(pipeline.program.rank_of_stage == flavor.rank_of_stage);
    CHECK(pipeline.program.microbatches == 8);
    CHECK(pipeline.program.has_messages());
  }
}

TEST_CASE("torchtitan's run with a schedule from a file takes stages and order from it") {
  const std::string csv = csv_of("InterleavedZeroBubble", {2, 2, 8});
  const TomlFile file(csv);
  const PipelineLayout layout =
      layout_of({"degree=2", "schedule=PipelineScheduleMulti", "schedule_csv=" + file.path()});
  CHECK(text_of(layout.stages) == "Et|(t*2|)*2tL");
  CHECK(layout.program.ranks == layout_of({"degree=2", "schedule=InterleavedZeroBubble"}).program.ranks);
}

TEST_CASE("layers are divided evenly, by layers a stage, by names of modules or as Megatron writes it") {
  CHECK(stages_of({"degree=3"}, 3) == "Et*2|t*3|tL");
  CHECK(stages_of({"degree=2", "first_stage_less_layers=0", "last_stage_less_layers=2"}) == "Et*4|t*2L");
  CHECK(stages_of({"degree=2", "schedule=interleaved1f1b", "layers_per_stage=2"}) == "Et|(t*2|)*2tL");
  CHECK(stages_of({"degree=2", "layout=Et*5|tL"}) == "Et*5|tL");
  const std::string lists =
      R"([["tok_embeddings", "layers.0"], ["layers.1", "layers.2", "layers.3", "layers.4", "layers.5", "norm", "output"]])";
  CHECK(stages_of({"degree=2", "module_fqns_per_model_part=" + lists}) == "Et|t*5L");
  const JobConfig config =
      load_text("[parallelism]\npipeline_parallel_degree = 2\nmodule_fqns_per_model_part = " + lists + "\n");
  CHECK(config.parallelism.module_fqns_per_model_part[0] == "tok_embeddings+layers.0");
  // What is written of it reads back.
  CHECK(load_text(to_toml(config)).parallelism.module_fqns_per_model_part ==
        config.parallelism.module_fqns_per_model_part);
  CHECK_THAT(
      message_of("[compile]\npasses = [[\"a\", \"b\"]]\n"),
      ContainsSubstring("compile.passes = [\"a+b\"]: must be a list of texts, but is a list of lists"));
  CHECK_THAT(message({"--compile.passes=[[\"a\"]]"}), ContainsSubstring("must be a list of texts"));
}

TEST_CASE("a split that is none is refused with its key, its value and the rule") {
  struct Mistake {
    Words flags;
    const char* says;
  };
  const Mistake mistakes[] = {
      {{"degree=2", "layout=Et*3|t*2L"},
       "layout=Et*3|t*2L: the layout has 5 layers t, but model.n_layers = 6"},
      {{"degree=2", "layout=Et*3|t*3mL"}, "no model has multi-token prediction layers, m"},
      {{"degree=2", "layout=Et*3|t*3"}, "must be one E, layers t"},
      {{"degree=2", "layout=Et*3||t*3L"}, "stage 1 is empty; a stage needs a layer"},
      {{"degree=2", "layout=Et*2|t*2|t*2L"}, "the number of stages, 3, must be a multiple of"},
      {{"degree=2", "layout=Et|t|t|t*3L"},
       "4 stages on 2 ranks are 2 a rank, which must be 1 with 1F1B; divide the layers differently"},
      {{"degree=2", "layout=Et*3|t*3L", "layers_per_stage=4"}, "each say how layers are divided; set one"},
      {{"degree=2", "module_fqns_per_model_part=[\"tok_embeddings+layers.1\",\"norm+output\"]"},
       "stage 0 has \"layers.1\", but layers.0 is next"},
      {{"degree=2", "--model.n_layers=1",
        "module_fqns_per_model_part=[\"tok_embeddings+layers.0+norm\",\"output\"]"},
       "norm ends stage 0, but norm and output belong to one stage"},
      {{"degree=2", "--model.n_layers=1", "module_fqns_per_model_part=[\"tok_embeddings\",\"layers.0\"]"},
       "no stage has norm"},
      {{"degree=2", "--model.n_layers=1",
        "module_fqns_per_model_part=[\"tok_embeddings+layers.0\",\"norm+output+output\"]"},
       "but all modules are in stages already"},
      {{"degree=2", "layers_per_stage=3"},
       "ceil((6 layers + 1 + 1) / 3) = 3, the number of stages, must be a multiple of"},
      {{"degree=2", "schedule=Interleaved1F1B", "layers_per_stage=4"},
       "are 1 a rank, which must be at least 2 with Interleaved1F1B"},
      {{"degree=16"}, "16 stages need at least 14 layers"},
      {{"degree=2", "schedule=1F2B"}, "must be one of GPipe, 1F1B, Interleaved1F1B"},
      {{"degree=2", "schedule=PipelineScheduleMulti"}, "means the schedule of a CSV file; set"},
      {{"degree=2", "split_points=layers.3"}, "use parallelism.module_fqns_per_model_part"},
      {{"degree=0"}, "must be at least 1"},
  };
  for (const Mistake& mistake : mistakes) {
    CAPTURE(mistake.flags);
    CHECK_THAT(message(mistake.flags), ContainsSubstring(mistake.says));
  }
}

TEST_CASE("all that is wrong with a pipeline is told at once, the mistakes of its file by row and column") {
  const TomlFile cell("0F0,0X0\n1F0,1B0\n"), circle("0F0,0B1,0F1,0B0\n1F0,1B0,1F1,1B1\n"),
      rows(csv_of("1F1B", {4, 1, 8}));
  const auto of_file = [&](const TomlFile& file, Words more = {}) {
    more.insert(more.end(), {"degree=2", "schedule_csv=" + file.path()});
    return message(more);
  };
  CHECK_THAT(of_file(cell), ContainsSubstring(cell.path() + ": row 1, column 2: \"0X0\" must be"));
  CHECK_THAT(of_file(circle), ContainsSubstring(circle.path() + ": ") && ContainsSubstring("rank 0"));
  CHECK_THAT(of_file(circle), ContainsSubstring("has 2 microbatches, but a step has 8"));
  CHECK_THAT(of_file(rows), ContainsSubstring("has 4 rows, but parallelism.pipeline_parallel_degree = 2"));
  CHECK_THAT(of_file(rows, {"schedule=GPipe"}), ContainsSubstring("remove one of them"));
  CHECK_THAT(of_file(rows, {"layout=Et*3|t*3L"}),
             ContainsSubstring("has 4 stages, but the layers are divided over 2"));
  CHECK_THAT(message({"degree=2", "schedule_csv=/nowhere.csv"}), ContainsSubstring("/nowhere.csv"));
  CHECK_THAT(message({"degree=4", "microbatch_size=3", "layout=Et|t|t*2|mL", "schedule=GPipe",
                      "layers_per_stage=2", "fsdp_reshard_after_forward=no"}),
             ContainsSubstring("the configuration has 5 problems"));
}

TEST_CASE("a step of a pipeline is one pass over all microbatches, those of accumulation included") {
  JobConfig config =
      load_config(flags_of({"degree=2", "microbatch_size=2", "--training.global_batch_size=48"}));
  const Layout layout = resolve_layout(config, 6);  // three copies of a pipeline, 8 sequences each at a time
  CHECK(layout.data_parallel() == 3);
  CHECK(layout.microbatch_size == 2);
  CHECK(layout.microbatches == 8);
  CHECK(pipeline_layout(config, layout)->program.microbatches == 8);
  CHECK_FALSE(pipeline_layout(load_config({}), resolve_layout(load_config({}), 2)).has_value());
  CHECK(resolve_layout(load_config({}), 2).microbatch_size == 8);
  CHECK_THAT(message({"degree=2", "microbatch_size=3"}),
             ContainsSubstring("must divide training.local_batch_size = 8"));
  CHECK_THAT(
      message({"degree=2", "tensor_parallel_degree=2", "--training.seq_len=9"}),
      ContainsSubstring("must divide parallelism.pipeline_parallel_microbatch_size * seq_len = 1 * 9"));

  // With the number of ranks alone it is known whether the schedule can have so many.
  const Words rounds = {"degree=2", "schedule=Interleaved1F1B", "--training.local_batch_size=1",
                        "--training.global_batch_size=5"};
  CHECK(message(rounds).empty());
  CHECK_THROWS_WITH(
      resolve_layout(load_config(flags_of(rounds)), 2),
      ContainsSubstring("must be a multiple of 2, the rounds of Interleaved1F1B on 2 ranks, such as 4"));
  CHECK(resolve_layout(load_config(flags_of(rounds)), 10).microbatches == 1);
  CHECK_THAT(message({"degree=2", "schedule=DualPipeV", "--training.local_batch_size=3"}),
             ContainsSubstring("a step has 3 microbatches") &&
                 ContainsSubstring("must be at least the number of stages, 4, with DualPipeV"));
}

TEST_CASE("few microbatches are told, and keys that do nothing without a pipeline") {
  const auto notes = [](const Words& words) { return load_config(flags_of(words)).notes; };
  CHECK(notes({"degree=2"}).empty());
  REQUIRE(notes({"degree=3", "microbatch_size=4"}).size() == 1);
  CHECK_THAT(notes({"degree=3", "microbatch_size=4"})[0],
             ContainsSubstring("a step has 2 microbatches for a pipeline of 3 stages"));
  CHECK(notes({"schedule=GPipe"}) == Words{"without effect: parallelism.pipeline_parallel_schedule "
                                           "(parallelism.pipeline_parallel_degree = 1)"});
  // torchtitan's files name a schedule in any case.
  CHECK(load_text("parallelism.pipeline_parallel_schedule = \"Interleaved1F1B\"\n").notes.empty());
}

TEST_CASE("a limit of pending weight gradients holds in schedules with names and of files, or is refused") {
  const Words divided = {"degree=2", "schedule=InterleavedZeroBubble"};
  const auto most_pending = [](Words words, const std::string& limit) {
    words.push_back("max_pending_weight_gradients=" + limit);
    const auto of_stage = layout_of(words).proof.in_flight.pending_of_stage;
    return *std::max_element(of_stage.begin(), of_stage.end());
  };
  const TomlFile file(csv_of("InterleavedZeroBubble", {2, 2, 8}));
  const Words of_file = {"degree=2", "schedule_csv=" + file.path()};
  for (const Words& words : {divided, of_file}) {
    CHECK(most_pending(words, "0") == 0);
    CHECK(most_pending(words, "1") == 1);
  }
  const TomlFile whole(csv_of("1F1B", {2, 1, 8}));
  for (const Words& words : {Words{"degree=2"}, Words{"degree=2", "schedule_csv=" + whole.path()}}) {
    Words limited = words;
    limited.emplace_back("max_pending_weight_gradients=1");
    CHECK_THAT(message(limited), ContainsSubstring("no backward of the schedule is divided") &&
                                     ContainsSubstring("max_pending_weight_gradients=1"));
  }
}

TEST_CASE("what a pipeline cannot do is refused, and a pipeline gathers its weights once a step") {
  CHECK_THAT(message({"degree=2", "--model.name=qwen3", "--model.flavor=0.6B"}),
             ContainsSubstring("would be on both the first and the last stage"));
  CHECK_THAT(message({"degree=2", "--compile.memory_policy=sac_and_offload"}),
             ContainsSubstring("host memory; set compile.memory_policy"));
  const Words experts = {"degree=2", "--model.name=deepseek_v3", "expert_capacity_factor=1.5"};
  CHECK_THAT(message(experts), ContainsSubstring("cannot repeat a step whose experts overflow"));
  Words skips = experts;
  skips.push_back("expert_overflow=skip");
  CHECK(message(skips).empty());

  const auto reshard = [](const Words& words) { return reshard_after_forward(load_config(flags_of(words))); };
  CHECK(reshard({}) == ReshardAfterForward::all_but_last);
  CHECK(reshard({"degree=2"}) == ReshardAfterForward::never);
  CHECK(reshard({"degree=2", "fsdp_reshard_after_forward=always"}) == ReshardAfterForward::always);
}

TEST_CASE("overlapped microbatches are one stage on each rank, and divide its local batch") {
  const Words two = {"overlapped_microbatches=2"}, by_torchtitan = {"--compile.ep_overlap.enabled=true"};
  for (const Words& words : {two, by_torchtitan}) {
    const JobConfig config = load_config(flags_of(words));
    CHECK(resolve_layout(config, 2).microbatch_size == 4);
    CHECK(layout_of(words).program.microbatches == 2);
    CHECK(stages_of(words) == "Et*6L");
    CHECK(reshard_after_forward(config) == ReshardAfterForward::always);
  }
  CHECK(layout_of({"overlapped_microbatches=4", "--training.global_batch_size=32"}).program.microbatches ==
        8);
  CHECK(load_config(flags_of({"--model.name=deepseek_v3", "expert_parallel_degree=2",
                              "expert_parallel_comm_backend=standard", "overlapped_microbatches=2"}))
            .notes.size() == 1);
}

TEST_CASE("overlapped microbatches that cannot be are refused") {
  CHECK_THAT(
      message({"overlapped_microbatches=3"}),
      ContainsSubstring("--parallelism.overlapped_microbatches=3: training.local_batch_size = 8 must be "
                        "a multiple of the overlapped microbatches, 3: each has whole sequences"));
  CHECK_THAT(message({"overlapped_microbatches=16"}), ContainsSubstring("must be a multiple"));
  CHECK_THAT(message({"overlapped_microbatches=2", "degree=2"}),
             ContainsSubstring("are of runs without a pipeline"));
  CHECK_THAT(message({"--compile.ep_overlap.enabled=true", "degree=2"}),
             ContainsSubstring("are of runs without a pipeline"));
  CHECK_THAT(
      message({"overlapped_microbatches=2", "--compile.memory_policy=sac_and_offload"}),
      ContainsSubstring("a step of overlapped microbatches holds activations of several microbatches"));
  CHECK_THAT(
      message({"overlapped_microbatches=2", "--model.name=deepseek_v3", "expert_capacity_factor=1.5"}),
      ContainsSubstring("a step of overlapped microbatches cannot repeat a step whose experts overflow"));
  CHECK_THAT(message({"--compile.ep_overlap.chunk_dim=seq"}), ContainsSubstring("halves of the batch"));
}

}  // namespace
}  // namespace rondo

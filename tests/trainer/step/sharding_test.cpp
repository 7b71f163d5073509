// Tests types of sharding on the graphs of both models: correct graphs have types after every pass,
// and mistakes do not. Nothing is run and no process group is created, so a layout may have any
// number of ranks. RONDO_BLESS=1 rewrites the table in docs/proof.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <set>

#include "compiler/ops/op.h"
#include "compiler/passes/pipeline.h"
#include "compiler/verify/infer_sharding.h"
#include "compiler/verify/parameter_owners.h"
#include "compiler/verify/verify.h"
#include "config/load.h"
#include "models/parts/decoder.h"
#include "support/error.h"
#include "tests/compiler/verify/mutants.h"
#include "tests/runs/metrics/scratch.h"
#include "trainer/step/from_config.h"
#include "trainer/step/functions/placement.h"
#include "trainer/step/step_runner.h"

namespace rondo {
namespace {

using Flags = std::vector<std::string>;

struct LaidOut {
  std::string model;
  std::int64_t ranks;
  Flags more = {};
  std::int64_t length = 64;
};

JobConfig config_of(const LaidOut& job) {
  Flags flags = {"--job.config_file=" RONDO_SOURCE_DIR "/configs/" + job.model + ".toml",
                 fmt::format("--training.seq_len={}", job.length)};
  for (const std::string& flag : job.more) flags.push_back("--" + flag);
  return load_config(flags);
}

// Returns all functions of a step after the passes, verified after the trace and after each pass.
std::vector<ir::Graph> graphs_of(const LaidOut& job, std::int64_t rank = 0,
                                 const std::shared_ptr<TracedGraphs>& traces = {}) {
  const JobConfig config = config_of(job);
  const TrainStepFunctions step =
      make_train_step(make_decoder(config.model.name, config.model.sizes),
                      step_options(config, resolve_layout(config, job.ranks), rank));
  CompileRequest request = compile_request(config, TargetDevice::cpu, {});
  request.traces = traces;
  const StepProgram compiled(step, request, config.validation.enable);
  std::vector<ir::Graph> graphs;
  for (const CompiledStep* function : compiled.all()) graphs.push_back(function->graph());
  return graphs;
}

// Returns the CPU time of this thread.
double milliseconds() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Times of the verifier's rules after the trace and after each pass that changes the graph.
struct Times {
  double total = 0, types = 0, owners = 0;
  std::size_t graphs = 0;

  void add(const Times& other) {
    total += other.total, types += other.types, owners += other.owners, graphs += other.graphs;
  }
};
Times times_of_checks(const ir::Graph& graph) {
  Times times{.graphs = 1};
  for (const ir::Rule& rule : ir::rules()) {
    const double begin = milliseconds();
    rule.check(graph);
    const double ms = milliseconds() - begin;
    times.total += ms;
    if (rule.name == "shardings_agree") times.types += ms;
    if (rule.name == "parameters_keep_their_places") times.owners += ms;
  }
  return times;
}
Times times_of_checks(ir::Graph graph, const CompileOptions& options) {
  Times times = times_of_checks(graph);
  std::vector<Times> after;
  const auto passes = ir::run_pipeline(graph, options, [&](std::string_view, const ir::Graph& now) {
                        after.push_back(times_of_checks(now));
                      }).passes;
  for (std::size_t i = 0; i < passes.size(); ++i)
    if (!passes[i].notes.unchanged) times.add(after[i]);
  return times;
}

namespace key {
const std::string replicate = "parallelism.data_parallel_replicate_degree=",
                  tensor = "parallelism.tensor_parallel_degree=",
                  expert = "parallelism.expert_parallel_degree=",
                  cut = "parallelism.expert_tensor_parallel_degree=", batch = "training.global_batch_size=",
                  policy = "compile.memory_policy=", rounds = "compile.numerics=rounds",
                  standard = "parallelism.expert_parallel_comm_backend=standard",
                  bounded = "parallelism.expert_capacity_factor=1.5",
                  exchanged = "parallelism.expert_parallel_combine=alltoall",
                  documents = "training.document_attention=true", muon = "optimizer.name=Muon",
                  once = "parallelism.fsdp_gradient_sync=step";
}  // namespace key

}  // namespace

TEST_CASE(
    "the graphs of every model have rows for their ops and types of sharding after every pass, in every "
    "layout") {
  const std::vector<LaidOut> jobs = {
      {"llama3_debug", 2},
      {"llama3_debug", 512, {key::replicate + "8", key::tensor + "8"}},
      {"llama3_debug", 2, {key::replicate + "2", key::batch + "32"}},
      {"llama3_debug", 4, {key::tensor + "2", key::rounds, key::documents, "training.local_batch_size=1"}},
      {"llama3_debug",
       8,
       {key::replicate + "2", key::tensor + "2", key::batch + "128", key::policy + "full"}},
      {"llama3_debug", 4, {key::tensor + "4", "model.vocab_size=2051", key::policy + "sac_and_offload"}},
      {"llama3_debug",
       4,
       {"training.dtype=bfloat16", "compile.passes=default", "compile.enable_fsdp_ag_rs_overlap=true"}},
      {"deepseek_v3_debug", 4, {key::expert + "4", key::batch + "64"}},
      {"deepseek_v3_debug", 8, {key::tensor + "2", key::expert + "8", key::rounds, key::exchanged}},
      {"deepseek_v3_debug",
       16,
       {key::replicate + "2", key::tensor + "2", key::expert + "4", key::bounded, key::standard}},
      {"deepseek_v3_debug",
       4,
       {key::expert + "2", key::bounded, "parallelism.expert_overflow=drop", key::documents}},
      {"deepseek_v3_debug",
       4,
       {key::tensor + "2", "model.sequence_balance_coeff=0.01", key::policy + "full"}},
      {"qwen3_debug", 8, {key::replicate + "2", key::tensor + "2", key::rounds, key::documents}},
      {"olmo2_debug", 8, {key::tensor + "4", key::batch + "16", key::policy + "full"}},
      {"olmo2_debug", 4, {key::tensor + "2", key::rounds, "training.dtype=bfloat16"}},
      {"qwen3_moe_debug", 8, {key::tensor + "2", key::expert + "8", key::standard, key::bounded}},
      {"gpt_oss_debug", 8, {key::tensor + "2", key::expert + "8", key::rounds, key::documents}},
      {"gpt_oss_debug", 4, {key::tensor + "4", key::expert + "2", key::standard, key::batch + "8"}},
      {"kimi_k2_debug", 4, {key::tensor + "2", key::expert + "4", key::rounds}},
      {"llama4_debug", 8, {key::tensor + "2", key::expert + "8", key::rounds, key::documents}},
      {"qwen3_moe_debug", 8, {key::tensor + "2", key::expert + "2", key::cut + "2", key::rounds}},
      {"qwen3_moe_debug",
       8,
       {key::replicate + "2", key::tensor + "4", key::cut + "4", key::batch + "32", key::policy + "full"}},
      {"deepseek_v3_debug",
       8,
       {key::tensor + "2", key::expert + "4", key::cut + "2", key::bounded, key::standard,
        key::batch + "64"}},
      {"deepseek_v3_debug", 8, {key::tensor + "2", key::expert + "4", key::cut + "2", key::bounded}},
      // One expert per rank.
      {"qwen3_moe_debug", 16, {key::tensor + "2", key::expert + "8", key::cut + "2"}},
      {"gpt_oss_debug", 16, {key::tensor + "2", key::expert + "8", key::cut + "2", key::rounds}},
      {"llama4_debug", 4, {key::tensor + "2", key::expert + "2", key::standard, "model.top_k=2"}},
      {"llama3_debug",
       12,
       {key::replicate + "2", key::tensor + "2", key::batch + "96", "model.vocab_size=2051",
        "model.tie_embeddings=true", key::once}},
      {"deepseek_v3_debug",
       8,
       {key::tensor + "2", key::expert + "2", key::cut + "2", key::batch + "64", key::rounds, key::once}},
      {"qwen3_moe_debug",
       8,
       {key::replicate + "2", key::expert + "4", key::batch + "64", key::once, "training.dtype=bfloat16"}},
      {"gpt_oss_debug",
       8,
       {key::tensor + "2", key::expert + "2", key::cut + "2", key::rounds, key::policy + "full"}},
      {"gpt_oss_debug", 8, {key::tensor + "4", key::cut + "4", key::standard, key::batch + "16"}},
      {"llama4_debug",
       8,
       {key::tensor + "2", key::expert + "2", key::cut + "2", key::standard, key::bounded, key::documents}},
      {"llama4_debug", 8, {key::replicate + "2", key::tensor + "2", key::expert + "2", key::cut + "2"}},
      {"llama3_debug", 12, {key::muon, key::replicate + "2", key::tensor + "2", key::batch + "96"}},
      {"deepseek_v3_debug", 8, {key::muon, key::tensor + "2", key::expert + "4", key::rounds}},
      // One expert per rank, each on two ranks.
      {"qwen3_moe_debug", 16, {key::muon, key::tensor + "2", key::expert + "8", key::cut + "2"}},
      {"llama4_debug", 8, {key::muon, key::tensor + "2", key::expert + "2", key::cut + "2"}},
  };
  std::set<std::string> without_row;
  for (const LaidOut& job : jobs) {
    INFO(job.model << " on " << job.ranks << ": " << fmt::format("{}", fmt::join(job.more, " ")));
    std::vector<ir::Graph> graphs;
    REQUIRE_NOTHROW(graphs = graphs_of(job));
    for (const ir::Graph& graph : graphs) {
      CHECK_FALSE(graph.mesh.axes.empty());
      for (const ir::Node& node : graph.nodes)
        if (node.op != ir::kReturn && ir::functional_facts(node.op).name.empty()) without_row.insert(node.op);
    }
  }
  CHECK(without_row == std::set<std::string>());
}

// Latents are gathered over the ranks that share a row, and heads are divided among other ranks.
TEST_CASE("latent attention in every recipe has types of sharding with context and tensor parallelism") {
  const auto in_float8 = [](const std::string& recipe) {
    return Flags{"model.converters=float8", "quantize.linear.float8.recipe_name=" + recipe};
  };
  for (const Flags& recipe : {in_float8("tensorwise"), in_float8("rowwise"), in_float8("rowwise_with_gw_hp"),
                              in_float8("blockwise"), Flags{"model.converters=quantize.linear.mx"},
                              Flags{"model.converters=quantize.linear.nvfp4"}}) {
    LaidOut job = {"deepseek_v3_debug",
                   4,
                   {"parallelism.context_parallel_degree=2", key::tensor + "2", "model.n_layers=2",
                    "quantize.linear.float8.emulate=true", "quantize.linear.mx.emulate=true",
                    "quantize.linear.nvfp4.emulate=true"},
                   512};
    job.more.insert(job.more.end(), recipe.begin(), recipe.end());
    INFO(fmt::format("{}", fmt::join(recipe, " ")));
    std::vector<ir::Graph> graphs;
    REQUIRE_NOTHROW(graphs = graphs_of(job));
    CHECK(graphs[0].mesh.axes.size() == 2);
  }
}

// One graph represents the graphs of all ranks. A number that differs between ranks has an op that
// says so.
TEST_CASE(
    "ranks have the same graph, except for arguments that name a rank and the padding of a vocabulary") {
  const std::vector<LaidOut> jobs = {
      {"llama3_debug", 8, {key::replicate + "2", key::tensor + "2", "model.vocab_size=2051", key::documents}},
      {"deepseek_v3_debug", 8, {key::tensor + "2", key::expert + "4", key::rounds}},
      {"deepseek_v3_debug", 4, {key::expert + "4", key::standard, key::bounded}},
      {"deepseek_v3_debug", 8, {key::tensor + "2", key::expert + "2", key::cut + "2"}},
  };
  std::set<std::string> differences;
  for (const LaidOut& job : jobs) {
    const std::vector<ir::Graph> first = graphs_of(job, 0);
    for (std::int64_t rank = 1; rank < job.ranks; ++rank) {
      const std::vector<ir::Graph> other = graphs_of(job, rank);
      for (std::size_t g = 0; g < first.size(); ++g) {
        REQUIRE(other[g].nodes.size() == first[g].nodes.size());
        for (ir::NodeIndex i = 0; i < first[g].node_count(); ++i) {
          const ir::Node &a = first[g].nodes[i], &b = other[g].nodes[i];
          REQUIRE(a.op == b.op);
          for (std::size_t k = 0; k < a.args.size(); ++k)
            if (!(a.args[k] == b.args[k])) differences.insert(fmt::format("{} argument {}", a.op, k));
        }
      }
    }
  }
  const std::set<std::string> expected = {"aten.gt.Scalar argument 1", "rondo.local_ids.default argument 1",
                                          "rondo.local_ids.default argument 2",
                                          "rondo.local_part.default argument 2"};
  CHECK(differences == expected);
}

TEST_CASE("degrees that do not nest leave the graph without a mesh") {
  const Mesh mesh(6, {1, 1, 2, 1, 3}, 2);
  CHECK(InputSharding(mesh).mesh().axes.empty());
  CHECK_FALSE(InputSharding(mesh).follows_layout());
  CHECK(InputSharding(Mesh(1, {1, 1, 1, 1, 1})).follows_layout());
  CHECK(InputSharding(Mesh(8, {1, 1, 4, 1, 2}, 4)).follows_layout());
  const std::vector<ir::MeshAxis> nested = {{"dp_shard_efsdp", 2}, {"dp_shard_ep", 2}, {"tp", 2}};
  CHECK((InputSharding(Mesh(8, {1, 1, 4, 1, 2}, 4)).mesh().axes == nested));
}

// Measures times; not in the suite. Run `step_test "[.time]"`.
TEST_CASE("the times of the checks of large graphs", "[.time]") {
  const std::vector<LaidOut> jobs = {
      {"llama3_8b", 512, {}, 8192},
      {"llama3_405b", 512, {key::tensor + "8"}, 8192},
      {"deepseek_v3_671b", 512, {key::expert + "64", key::tensor + "8"}, 4096},
  };
  for (const LaidOut& job : jobs) {
    const auto traces = std::make_shared<TracedGraphs>();
    graphs_of(job, 0, traces);
    const ir::Graph& traced = traces->at("train_step");
    const CompileOptions options = compile_request(config_of(job), TargetDevice::cpu, {}).options;
    std::vector<Times> rounds;
    for (int round = 0; round < 5; ++round) rounds.push_back(times_of_checks(traced, options));
    const auto median = [&](double Times::*of) {
      std::sort(rounds.begin(), rounds.end(), [&](const Times& a, const Times& b) { return a.*of < b.*of; });
      return rounds[2].*of;
    };
    fmt::print(
        "{} on {}: {} nodes, {} checks of {} graphs in {:.0f} ms, of that types {:.0f} ms and owners {:.0f} "
        "ms\n",
        job.model, job.ranks, traced.nodes.size(), ir::rules().size(), rounds[2].graphs,
        median(&Times::total), median(&Times::types), median(&Times::owners));
  }
}

TEST_CASE("docs/proof.md says how many mistakes in what ranks exchange are refused before a step runs") {
  struct Count {
    int mistakes = 0, refused = 0;
  };
  std::map<std::string, Count> kinds;
  const std::vector<LaidOut> jobs = {
      {"llama3_debug", 8, {key::replicate + "2", key::tensor + "2", "model.n_layers=2"}},
      {"llama3_debug", 4, {key::tensor + "2", key::batch + "64", "model.n_layers=2", key::rounds}},
      {"deepseek_v3_debug",
       8,
       {key::replicate + "2", key::tensor + "2", key::expert + "2", "model.n_layers=2"}},
      {"deepseek_v3_debug", 4, {key::expert + "2", key::standard, key::bounded, "model.n_layers=2"}},
      {"llama3_debug", 4, {key::tensor + "2", key::batch + "64", "model.n_layers=2", key::once}},
  };
  std::string escaped;
  for (const LaidOut& job : jobs)
    for (const ir::Graph& graph : graphs_of(job))
      ir::for_each_mutant(
          graph, [&](const std::string& kind, const std::string& place, const ir::Graph& mutant) {
            Count& count = kinds[kind];
            ++count.mistakes;
            try {
              ir::shardings_agree(mutant);
              ir::parameters_keep_their_places(mutant);
              if (count.mistakes - count.refused <= 3)
                escaped += fmt::format("{}: {} in {} of {}\n", kind, place, graph.name, job.model);
            } catch (const ir::VerifyError&) {
              ++count.refused;
            }
          });
  std::string table = "| mistake | made | refused |\n|---|---|---|\n";
  Count all;
  const auto add_row = [&](const std::string& name, const Count& count) {
    table += fmt::format("| {} | {} | {} |\n", name, count.mistakes, count.refused);
  };
  for (const auto& [kind, count] : kinds) {
    add_row(kind, count);
    all.mistakes += count.mistakes;
    all.refused += count.refused;
  }
  add_row("all", all);
  INFO(escaped);
  CHECK(all.refused * 100 >= all.mistakes * 80);
  const std::filesystem::path file = RONDO_SOURCE_DIR "/docs/proof.md";
  const std::string page = text_of(file);
  const std::size_t begin = page.find("| mistake |"), end = page.find("\n\n", begin) + 1;
  REQUIRE(begin != std::string::npos);
  if (std::getenv("RONDO_BLESS") != nullptr) {
    write_text(file, page.substr(0, begin) + table + page.substr(end));
  } else {
    CHECK(page.substr(begin, end - begin) == table);
  }
}

}  // namespace rondo

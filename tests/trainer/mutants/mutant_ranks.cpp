// `mutant_ranks play DESCRIPTORS`: ranks of a pool (launch/rank_pool.h) that run steps with
// mistakes. The flags are the name of a job, the number of generated mistakes, the seed that draws
// them, and the flags of the configuration.
//
// The unchanged step is traced and run first. Then each mistake is put into its graph, or into the
// schedule of a pipeline, whose ranks have different graphs. A mistake counts as refused if the
// verifier or the proof of a program refuses it. Otherwise it trains the same steps from the same
// weights on the same batches. The results are compared with the unchanged step, with the numbers
// and bounds by which `rondo prove` compares that step with one rank (prove/differences.h). Rank 0
// prints one line per mistake: kind, name and verdict, separated by tabs.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <optional>
#include <random>

#include "config/derived/paths.h"
#include "config/load.h"
#include "datasets/tokenizer/tokenizer.h"
#include "launch/rank_pool.h"
#include "prove/differences.h"
#include "prove/proof_job.h"
#include "support/error.h"
#include "tests/compiler/verify/mutants.h"
#include "tests/trainer/mutants/mistakes.h"
#include "trainer/step/from_config.h"
#include "trainer/step/step_runner.h"

namespace rondo {
namespace {

constexpr std::chrono::seconds kTimeout{60};

// The results of a run of the steps.
struct Played {
  std::vector<StepResult> steps;
  std::vector<at::Tensor> first_moments;  // after step 1: multiples of the gradients of the update
  std::vector<at::Tensor> state;          // after the last step
};

double largest(const at::Tensor& x) {
  return x.numel() == 0 ? 0 : x.abs().max().to(at::kDouble).item<double>();
}
double difference(double expected, double actual) {
  return expected == actual ? 0 : std::abs(expected - actual) / std::abs(expected);
}
double difference(const std::vector<at::Tensor>& expected, const std::vector<at::Tensor>& actual) {
  double most = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double apart = largest(expected[i].to(at::kDouble) - actual[i].to(at::kDouble)),
                 size = largest(expected[i]);
    if (apart != 0) most = std::max(most, size == 0 ? INFINITY : apart / size);
    if (std::isnan(apart)) return NAN;
  }
  return most;
}
// Returns the largest difference beyond its bound; 0 if there is none.
double beyond_bounds(const Played& expected, const Played& actual) {
  const Bounds bounds;
  double most = 0;
  const auto add = [&](double difference, double bound) {
    if (!(difference <= bound)) most = std::isnan(difference) ? INFINITY : std::max(most, difference);
  };
  for (std::size_t i = 0; i < expected.steps.size(); ++i) {
    const StepResult &a = expected.steps[i], &b = actual.steps[i];
    const double bound = i == 0 ? bounds.gradients : bounds.state;
    add(difference(a.loss, b.loss), bound);
    add(difference(a.grad_norm, b.grad_norm), bound);
    if (a.tokens_per_expert != b.tokens_per_expert || a.finite != b.finite) add(INFINITY, bound);
  }
  add(difference(expected.first_moments, actual.first_moments), bounds.gradients);
  add(difference(expected.state, actual.state), bounds.state);
  return most;
}

class MutantRank {
 public:
  explicit MutantRank(const JobConfig& config)
      : config_(config),
        environment_(rank_environment()),
        layout_(resolve_layout(config, environment_.world_size)),
        decoder_(make_decoder(config.model.name, config.model.sizes)),
        options_(step_options(config, layout_, environment_.rank)),
        pipeline_(pipeline_layout(config, layout_)),
        groups_(environment_, layout_.mesh.group(kAllAxes).name, kTimeout) {
    groups_.add(process_groups(config, layout_, pipeline_, environment_.rank));
    const auto tokenizer = load_tokenizer(tokenizer_name(config));
    DataLoader data(training_data(config, layout_, environment_), *tokenizer);
    for (std::int64_t i = 0; i < kProofSteps; ++i) batches_.push_back(data.next());
    const auto traces = std::make_shared<TracedGraphs>();
    passed_ = graphs(compile(traces, pipeline_, /*passes=*/true));
    traced_ = *traces;
    healthy_ = play(compile(traces, pipeline_, /*passes=*/false));
  }

  void play_mistakes(std::string_view job) {
    for (const Mistake& mistake : mistakes()) {
      if (mistake.job != job) continue;
      TracedGraphs graphs = mistake.after_passes ? passed_ : traced_;
      std::optional<PipelineLayout> pipeline = pipeline_;
      if (mistake.make_in_schedule) mistake.make_in_schedule(*pipeline);
      if (const auto graph = graphs.find(std::string(mistake.function)); graph != graphs.end()) {
        ir::Patient patient(graph->second);
        mistake.make(patient);
        graph->second = std::move(patient.graph);
      }
      print_verdict("hand", mistake.name, verdict(graphs, pipeline));
    }
  }

  // Runs `count` generated mistakes, drawn by `seed`; none if ranks have different graphs.
  void play_some(std::size_t count, std::uint64_t seed) {
    if (pipeline_) return;
    std::size_t mutants = 0;
    for (const auto& [name, graph] : passed_)
      ir::for_each_mutant(graph, [&](const auto&, const auto&, const auto&) { ++mutants; });
    std::mt19937_64 random(seed);
    std::vector<bool> drawn(mutants, false);
    for (std::size_t i = 0; i < count; ++i) drawn[random() % mutants] = true;
    std::size_t next = 0;
    for (const auto& [name, graph] : passed_)
      ir::for_each_mutant(graph, [&](const std::string& kind, const std::string& place,
                                     const ir::Graph& mutant) {
        if (!drawn[next++]) return;
        TracedGraphs graphs = passed_;
        graphs.at(name) = mutant;
        print_verdict("machine", fmt::format("{}: {} in {}", kind, place, name), verdict(graphs, pipeline_));
      });
  }

 private:
  // Compiles graphs that were traced, or that the passes have already changed.
  StepProgram compile(const std::shared_ptr<TracedGraphs>& graphs,
                      const std::optional<PipelineLayout>& pipeline, bool passes) const {
    CompileRequest request = compile_request(config_, TargetDevice::cpu, {});
    request.executor = ExecutorKind::interpreter;
    if (!passes) request.options.passes = {};
    request.traces = graphs;
    return compile_step(config_, layout_, pipeline, environment_.rank, decoder_, request);
  }
  static TracedGraphs graphs(const StepProgram& compiled) {
    TracedGraphs graphs;
    for (const CompiledStep* step : compiled.all()) graphs.emplace(step->function().name, step->graph());
    return graphs;
  }

  Played play(const StepProgram& compiled) {
    std::vector<const StepFunction*> functions;
    for (const CompiledStep* step : compiled.all()) functions.push_back(&step->function());
    const TrainState state(*decoder_, functions, /*seed=*/1, layout_.mesh, environment_.rank,
                           table_length(options_));
    const SharedResources shared = share_resources(compiled.all(), c10::kCPU);
    StepRunner runner(compiled, state, shared);
    Played played;
    for (const StepBatch& batch : batches_) {
      played.steps.push_back(runner.run(batch, config_.optimizer.lr));
      for (const StatePart& part : state.parts()) {
        if (played.steps.size() == 1 && part.name.starts_with("optimizer/exp_avg."))
          played.first_moments.push_back(part.tensor.clone());
        if (played.steps.size() == batches_.size()) played.state.push_back(part.tensor.clone());
      }
    }
    return played;
  }

  // Returns the reason why the mistake is refused before a run, or "". The same on all ranks,
  // although the mistake may concern only some of them.
  std::string refusal(const TracedGraphs& graphs, std::optional<PipelineLayout>& pipeline,
                      std::optional<StepProgram>& compiled) {
    static constexpr std::array<const char*, 3> kRules = {"shardings_agree", "parameters_keep_their_places",
                                                          "proof of the program"};
    std::int64_t rule = -1;
    std::string message;
    try {
      if (pipeline && pipeline->program.ranks != pipeline_->program.ranks)
        pipeline->proof = pipeline::prove(pipeline->program);
      compiled.emplace(compile(std::make_shared<TracedGraphs>(graphs), pipeline, /*passes=*/false));
    } catch (const Error& error) {
      message = error.what();
      const auto breaks = [&](const char* rule_name) {
        return message.find(std::string("breaks rule ") + rule_name) != std::string::npos;
      };
      rule = breaks(kRules[0]) ? 0 : breaks(kRules[1]) ? 1 : error.code() == ExitCode::config ? 2 : 3;
    }
    const std::int64_t largest_rule = groups_.maximum({rule})[0];
    return largest_rule < 0    ? ""
           : largest_rule == 3 ? "is no graph: " + message
                               : std::string("refused: ") + kRules[static_cast<std::size_t>(largest_rule)];
  }

  // Returns "refused: RULE", "differs by 0.5", "fails: WHY" or "escapes", the same on all ranks.
  std::string verdict(const TracedGraphs& graphs, std::optional<PipelineLayout> pipeline) {
    std::optional<StepProgram> compiled;
    if (std::string refused = refusal(graphs, pipeline, compiled); !refused.empty()) return refused;
    double beyond = 0;
    std::string failure;
    try {
      beyond = beyond_bounds(healthy_, play(*compiled));
    } catch (const std::exception& error) {
      failure = error.what();
    }
    // The maximum over all ranks. The bits of non-negative numbers are in the order of the numbers.
    const std::vector<std::int64_t> most =
        groups_.maximum({failure.empty() ? 0 : 1, std::bit_cast<std::int64_t>(beyond)});
    if (most[0] != 0) return "fails: " + failure.substr(0, failure.find('\n'));
    return most[1] == 0 ? "escapes" : fmt::format("differs by {:.1e}", std::bit_cast<double>(most[1]));
  }

  void print_verdict(const char* kind, const std::string& name, const std::string& verdict) const {
    if (environment_.rank == 0) fmt::print("{}\t{}\t{}\n", kind, name, verdict);
    std::fflush(stdout);
  }

  const JobConfig config_;
  const RankEnvironment environment_;
  const Layout layout_;
  const std::shared_ptr<const Decoder> decoder_;
  const TrainStepOptions options_;
  const std::optional<PipelineLayout> pipeline_;
  ProcessGroups groups_;
  std::vector<StepBatch> batches_;
  TracedGraphs traced_, passed_;
  Played healthy_;
};

int play(const std::vector<std::string>& flags) {
  try {
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    at::set_num_threads(1);
    MutantRank rank(load_config({flags.begin() + 3, flags.end()}));
    rank.play_mistakes(flags.at(0));
    rank.play_some(std::stoul(flags.at(1)), std::stoull(flags.at(2)));
    return 0;
  } catch (const std::exception& error) {
    fmt::print("error: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) { return argc == 3 ? rondo::launch::serve_runs(argv[2], &rondo::play) : 2; }

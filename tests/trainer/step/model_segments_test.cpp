// Tests the segments of the steps of the real models against model_segments.txt: where each
// begins and ends, and what cuts it. RONDO_BLESS=1 rewrites the file; the change is then reviewed
// like code.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/ops/segments.h"
#include "config/load.h"
#include "models/parts/decoder.h"
#include "trainer/step/from_config.h"
#include "trainer/step/step_runner.h"

namespace rondo {
namespace {

// Lists the segments of a function by their first and last ops. Numbers of nodes would change with
// every pass.
std::string list_segments(const CompiledStep& step) {
  const ir::Graph& graph = step.graph();
  std::string text = fmt::format("  {}: {}\n", graph.name, step.report().segments_in_words);
  if (graph.segments.size() == 1) return text;
  for (const ir::Segment& segment : graph.segments) {
    const ir::Node* first = &graph.nodes[static_cast<std::size_t>(segment.begin)];
    const ir::Node* last = &graph.nodes[static_cast<std::size_t>(segment.end - 1)];
    text += fmt::format("    {} ... {}\n", ir::describe_place(*first),
                        ir::describe_place(last->op == ir::kReturn ? last[-1] : *last));
  }
  return text;
}

std::string list_model(const std::string& config_name, std::int64_t ranks,
                       const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags = {"--job.config_file=" RONDO_SOURCE_DIR "/configs/" + config_name +
                                    ".toml"};
  flags.insert(flags.end(), more.begin(), more.end());
  const JobConfig config = load_config(flags);
  const Layout layout = resolve_layout(config, ranks);
  const TrainStepFunctions step =
      make_train_step(make_decoder(config.model.name, config.model.sizes), step_options(config, layout, 0));
  CompileRequest request = compile_request(config, TargetDevice::cuda, {});
  request.options.passes = {"default", "cudagraph"};
  const StepProgram compiled(step, request, config.validation.enable);
  std::string text = fmt::format("{}, {} rank{}{}{}\n", config_name, ranks, ranks == 1 ? "" : "s",
                                 more.empty() ? "" : ", ", fmt::join(more, " "));
  for (const CompiledStep* function : compiled.all()) {
    CHECK(function->report().segments == function->graph().segments.size());
    CHECK(ir::host_syncs(function->graph()).empty() == (function->report().segments == 1));
    text += list_segments(*function);
  }
  return text;
}

}  // namespace

TEST_CASE("the steps of both models have the segments of the file") {
  const std::filesystem::path file = RONDO_SOURCE_DIR "/tests/trainer/step/model_segments.txt";
  const std::vector<std::string> shared = {"--parallelism.tensor_parallel_degree=2",
                                           "--parallelism.expert_parallel_degree=4"};
  std::vector<std::string> by_exact_counts = shared;
  by_exact_counts.emplace_back("--parallelism.expert_parallel_comm_backend=standard");
  const std::string listed = list_model("llama3_debug", 1) + list_model("llama3_debug", 4) +
                             list_model("llama3_debug", 4, {"--training.global_batch_size=64"}) +
                             list_model("llama3_debug", 4, {"--compile.memory_policy=full"}) +
                             list_model("deepseek_v3_debug", 1) + list_model("deepseek_v3_debug", 4) +
                             list_model("deepseek_v3_debug", 4, shared) +
                             list_model("deepseek_v3_debug", 4, by_exact_counts);
  if (std::getenv("RONDO_BLESS") != nullptr) std::ofstream(file) << listed;
  std::ostringstream expected;
  expected << std::ifstream(file).rdbuf();
  CHECK(listed == expected.str());
}

}  // namespace rondo

// Tests that the loss of every debug model falls, and the bitwise ladder. Label `full`.
#include <catch2/generators/catch_generators.hpp>

#include "tests/run/deepseek.h"
#include "tests/run/models.h"

namespace rondo {
namespace {

TEST_CASE("the loss of every debug model falls in 200 steps") {
  const std::string name =
      GENERATE("llama3", "deepseek_v3", "qwen3", "qwen3_moe", "olmo2", "gpt_oss", "llama4", "kimi_k2");
  INFO(name);
  const Place place("");
  const ProgramResult result = run_program(
      {kRondo, "launch", "--nproc-per-node", "2", "--", "train",
       RONDO_SOURCE_DIR "/configs/" + name + "_debug.toml",
       "--training.dataset_path=" RONDO_SOURCE_DIR "/data/corpus", "--training.steps=200",
       "--training.seq_len=64", "--validation.enable=false", "--job.dump_folder=" + (place / "run").string()},
      3600 * 1000);
  INFO(result.output);
  REQUIRE(result.exit_code == 0);
  const auto lines = place.metrics("run");
  REQUIRE(lines.size() == 200);
  CHECK(lines[199]["loss"].get<double>() < 0.5 * lines[0]["loss"].get<double>());
}

std::vector<SmallModel> all_small_models() {
  std::vector<SmallModel> models = small_models();
  std::string kimi = kTinyDeepSeek;
  kimi.replace(kimi.find("debugmodel"), 0, "kimi_k2_");
  models.push_back({"deepseek_v3", kTinyDeepSeek});
  models.push_back({"kimi_k2", kimi});
  return models;
}

TEST_CASE("every model has the same bits on every rung of the ladder") {
  const SmallModel model = GENERATE(from_range(all_small_models()));
  INFO(model.name);
  for (const Point& point :
       {Point{1, false, true, false, true}, {2, true, false, true, false}, {2, false, true, false, false}})
    climb(point, {}, Place(model.toml));
  if (!model.has_experts()) return;
  for (const char* exchange : {"static", "standard"})
    climb({4, true, false, false, true},
          {"--model.n_heads=4", "--parallelism.tensor_parallel_degree=2",
           "--parallelism.expert_parallel_degree=2", "--parallelism.expert_tensor_parallel_degree=2",
           std::string("--parallelism.expert_parallel_comm_backend=") + exchange},
          Place(model.toml));
}

}  // namespace
}  // namespace rondo

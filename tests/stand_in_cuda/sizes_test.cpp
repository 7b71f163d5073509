// Models of the sizes that are trained on rented GPUs. No kernel runs, so a step of 8 billion
// parameters takes a moment; its calls of the driver are real.
#include <catch2/generators/catch_generators.hpp>
#include <map>

#include "tests/stand_in_cuda/on_stand_in.h"

namespace rondo {
namespace {

struct Size {
  const char* config;
  int ranks;
  Words flags;
};

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

nlohmann::json plan_of(const StandInRun& run, const Size& size) {
  const Words plan = {
      kRondo, "plan", size.config, "--world", std::to_string(size.ranks), "--json", "--search-plans=0"};
  const ProgramResult ended = run_program(
      Words{"/usr/bin/env"} + stand_in_settings(run.journals()) + plan + size.flags, kRunTimeout_ms);
  INFO(ended.output);
  REQUIRE(ended.exit_code == 0);
  return nlohmann::json::parse(ended.output);
}

const Size kCompass = {
    RONDO_SOURCE_DIR "/configs/llama3_8b.toml",
    1,
    {"--training.seq_len=4096", "--training.local_batch_size=2", "--training.dtype=bfloat16",
     "--activation_checkpoint.mode=none", "--compile.numerics=rounds"}};
const Words kRecorded = {"--compile.passes=default,cudagraph"};

}  // namespace

TEST_CASE("steps of models of real size are recorded with at most 1 GiB more than planned") {
  const std::map<std::string, Size> sizes = {
      {"Llama 3 8B, bf16, one GPU", kCompass},
      {"Llama 3 8B over 8", {RONDO_SOURCE_DIR "/configs/llama3_8b.toml", 8, {}}},
      {"DeepSeek-V3 16B, experts over 8",
       {RONDO_SOURCE_DIR "/configs/deepseek_v3_16b.toml", 8, {"--parallelism.expert_parallel_degree=8"}}},
  };
  for (const auto& [name, size] : sizes) DYNAMIC_SECTION(name) {
      const StandInRun run;
      const ProgramResult ended = run.run(size.ranks, size.config, size.flags + steps(3) + kRecorded);
      INFO(ended.output);
      REQUIRE(ended.exit_code == 0);
      const double planned = gib(plan_of(run, size)["memory"]["total_bytes"].get<std::int64_t>());
      for (int rank = 0; rank < size.ranks; ++rank) {
        const JournalFile journal = run.journal(rank);
        CHECK(problems(journal, size.ranks > 1) == std::vector<std::string>{});
        const double asked = gib(journal.alive("most_device_bytes"));
        CHECK(asked > 0.99 * planned);
        CHECK(asked < planned + 1);
      }
    }
}

// Flash, the only kernel here, sums the gradients of keys and values that heads share: two sums,
// two casts and two copies to their planned memory. The counter of segments is an addition and a
// copy; one more result is copied to its memory.
TEST_CASE("a step of 8B is recorded as the planned kernels, copies and fills, and the helpers of flash") {
  const Words float8 = {"--model.converters=float8", "--quantize.linear.float8.filter_fqns=output"},
              recipe = {"--quantize.linear.float8.recipe_name=" +
                        std::string(GENERATE("bf16", "tensorwise", "rowwise", "blockwise"))};
  Size size = kCompass;
  if (recipe[0].find("bf16") == std::string::npos) size.flags = size.flags + float8 + recipe;
  INFO(recipe[0]);
  const StandInRun run;
  const ProgramResult ended = run.run(1, size.config, size.flags + steps(3) + kRecorded);
  INFO(ended.output);
  REQUIRE(ended.exit_code == 0);
  const auto planned = plan_of(run, size)["step"]["launches"]["total"].get<std::int64_t>();
  constexpr std::int64_t kLayers = 32, kHelpers = 3, kOthers = 3;
  CHECK(JournalFile::number(run.journal().first("capture_end"), "nodes") ==
        planned + kLayers * kHelpers + kOthers);
}

}  // namespace rondo

// Three large jobs that do not fit, and what `rondo plan` says would make them fit.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/rondo/run_program.h"

namespace rondo {
namespace {

using nlohmann::json;

std::string text_of_plan(const std::string& words) {
  const ProgramResult result = run_program(
      {"/bin/sh", "-c", fmt::format("cd {} && {}/rondo plan {}", RONDO_SOURCE_DIR, RONDO_BINARY_DIR, words)},
      900'000);
  INFO(result.output);
  REQUIRE(result.exit_code == 0);
  return result.output;
}

json plan(const std::string& words) { return json::parse(text_of_plan(words + " --json")); }

std::string text_of(const json& flags) {
  std::string text;
  for (const json& flag : flags) text += " " + flag.get<std::string>();
  return text;
}

// Every remedy fits, takes less than the job, and is no slower than the next one; the first is what
// its flags give when they are typed.
void check(const std::string& words, const json& job) {
  CHECK(job.at("memory").at("fits") == false);
  const json& remedies = job.at("remedies");
  const json& found = remedies.at(remedies.at("found").empty() ? "changing" : "found");
  REQUIRE_FALSE(found.empty());
  const auto plans = remedies.at("estimated").get<int>() + remedies.at("planned").get<int>();
  CHECK(plans <= 300);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].at("total_bytes") <= job.at("memory").at("usable_bytes"));
    if (i > 0) CHECK(found[i].at("tokens_per_s") <= found[i - 1].at("tokens_per_s"));
  }
  const json typed = plan(words + text_of(found[0].at("flags")));
  CHECK(typed.at("memory").at("fits") == true);
  CHECK(typed.at("memory").at("total_bytes") == found[0].at("total_bytes"));
}

bool any_has(const json& job, const std::string& flag) {
  const json& found = job.at("remedies").at("found");
  return std::any_of(found.begin(), found.end(), [&](const json& remedy) {
    return text_of(remedy.at("flags")).find(flag) != std::string::npos;
  });
}

TEST_CASE("a search of the debug model on two ranks ends before its limit") {
  const json job = plan("configs/llama3_debug.toml --world 2 --device h100 --search");
  const json& faster = job.at("faster");
  CHECK(faster.at("complete") == true);
  CHECK(faster.at("estimated").get<int>() + faster.at("planned").get<int>() < 300);
}

TEST_CASE("405B fits on 64 H200 when ranks share the layers") {
  const std::string words = "configs/llama3_405b.toml --world 64";
  const json job = plan(words);
  check(words, job);
  CHECK(job.at("remedies").at("most_ranks") == 64);
  CHECK(any_has(job, "--parallelism.tensor_parallel_degree="));
}

// The example of docs/plan.md.
const std::string kLongSequences =
    "configs/llama3_8b.toml --world 8 --device h100 --training.seq_len=131072 "
    "--activation_checkpoint.mode=full";

TEST_CASE("8B with 131,072 tokens fits on 8 H100 with its loss in chunks and nothing else changed") {
  const std::string& words = kLongSequences;
  const json job = plan(words);
  check(words, job);
  const json& found = job.at("remedies").at("found");
  CHECK(std::any_of(found.begin(), found.end(), [](const json& remedy) {
    return remedy.at("flags") == json::array({"--compile.numerics=rounds"});
  }));
}

TEST_CASE("the remedies in docs/plan.md are what the command prints, but for the search's time") {
  const std::string text = text_of_plan(kLongSequences);
  std::ifstream page(RONDO_SOURCE_DIR "/docs/plan.md");
  bool inside = false;
  int lines = 0;
  for (std::string line; std::getline(page, line);) {
    inside = inside || line.starts_with("ways to fit on these");
    if (!inside || line.find(" planned whole in ") != std::string::npos) continue;
    if (line == "```") break;
    ++lines;
    CHECK(text.find(line + "\n") != std::string::npos);
  }
  CHECK(lines >= 3);
}

TEST_CASE("no remedy for 671B on 64 H200 raises its memory") {
  const std::string words = "configs/deepseek_v3_671b.toml --world 64";
  check(words, plan(words));
}

}  // namespace
}  // namespace rondo

// `rondo plan` as a process that searches: what fits, and what is faster.
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/apps/plan_process.h"

namespace rondo {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

TEST_CASE("a job that does not fit is told what would, as flags to type and with their numbers") {
  const std::string words =
      "--world 8 --device h100 --model.n_layers=2 --training.local_batch_size=32 --search-plans 40";
  const json p = plan_json("llama3_8b.toml", words);
  CHECK(p.at("memory").at("fits") == false);
  const json& found = p.at("remedies").at("found");
  REQUIRE_FALSE(found.empty());

  std::string flags;
  for (const json& flag : found.front().at("flags")) flags += " " + flag.get<std::string>();
  const json advised = plan_json("llama3_8b.toml", words + flags);
  CHECK(advised.at("memory").at("fits") == true);
  CHECK(advised.at("memory").at("total_bytes") == found.front().at("total_bytes"));
  CHECK(advised.at("tokens_per_s").get<double>() == Approx(found.front().at("tokens_per_s").get<double>()));
  CHECK(advised.at("remedies").is_null());

  const std::string text = plan("llama3_8b.toml", words).output;
  CHECK_THAT(text, ContainsSubstring("does not fit"));
  CHECK_THAT(text, ContainsSubstring("ways to fit on these 8 ranks, fastest first"));
  CHECK_THAT(text, ContainsSubstring(flags.substr(1)));
  CHECK_THAT(plan("llama3_8b.toml", words + " --search-plans 0").output,
             !ContainsSubstring("ways to fit on these"));
}

TEST_CASE(
    "a job that fits is searched on request, and the text says after the plan what is left on the "
    "table") {
  const std::string words =
      "--world 8 --device h100 --model.n_layers=2 --activation_checkpoint.mode=full --search-plans 20";
  CHECK(plan_json("llama3_8b.toml", words).at("faster").is_null());
  const json faster = plan_json("llama3_8b.toml", words + " --search").at("faster");
  REQUIRE_FALSE(faster.at("found").empty());
  CHECK(faster.at("estimated").get<int>() + faster.at("planned").get<int>() <= 20);
  const std::string text = plan("llama3_8b.toml", words + " --search").output;
  CHECK_THAT(text, ContainsSubstring("left on the table: "));
  REQUIRE_THAT(text, ContainsSubstring(" plans: "));  // improvements, as they come
  CHECK(text.find("runs, steps alone") < text.find(" plans: "));
}

TEST_CASE("a job that nothing makes fit says so, and planning it is no failure") {
  const ProgramResult result =
      plan("llama3_405b.toml",
           "--world 1 --device h100 --model.n_layers=2 --model.dim=131072 --training.seq_len=1024");
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, ContainsSubstring("nothing fits on 64 ranks either"));
}

}  // namespace
}  // namespace rondo

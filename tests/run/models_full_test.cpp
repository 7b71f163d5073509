// A falling loss of every debug model, and the ladder of bits. Label `full`.
#include <catch2/generators/catch_generators.hpp>

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
       RONDO_SOURCE_DIR "/configs/" + name + "_debug.toml", "--training.steps=200", "--training.seq_len=64",
       "--validation.enable=false", "--job.dump_folder=" + (place / "run").string()},
      3600 * 1000);
  INFO(result.output);
  REQUIRE(result.exit_code == 0);
  const auto lines = place.metrics("run");
  REQUIRE(lines.size() == 200);
  CHECK(lines[199]["loss"].get<double>() < 0.5 * lines[0]["loss"].get<double>());
}

TEST_CASE("every model has the same bits on every rung of the ladder") {
  const SmallModel model = GENERATE(from_range(small_models()));
  const Place place(model.toml);
  for (const Point& point :
       {Point{1, false, true, false, true}, {2, true, false, true, false}, {2, false, true, false, false}}) {
    INFO(model.name << " on " << point.name());
    run_at(place, point, "eager " + point.name(), kEager);
    run_at(place, point, "interpreter " + point.name(), kInterpreter);
    run_at(place, point, "replay " + point.name(), kReplay);
    check_equal(place, "eager " + point.name(), "interpreter " + point.name());
    check_equal(place, "eager " + point.name(), "replay " + point.name());
  }
}

}  // namespace
}  // namespace rondo

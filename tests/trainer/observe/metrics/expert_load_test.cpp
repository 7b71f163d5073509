// expert_load.jsonl: its lines, and how a run that resumes takes over those of an earlier one.
#include "trainer/observe/metrics/expert_load.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/trainer/observe/metrics/scratch.h"

namespace rondo {
namespace {

const std::vector<std::string> kRouters = {"layers.1.moe", "layers.2.moe"};

TEST_CASE("a line has the tokens of every expert under the name of its router") {
  const Scratch scratch;
  ExpertLoadWriter(scratch.root(), kRouters).write(10, std::vector<float>{3, 0, 5, 16777216, 1, 2});
  CHECK(text_of(scratch / "expert_load.jsonl") ==
        R"({"step":10,"tokens_per_expert":{"layers.1.moe":[3,0,5],"layers.2.moe":[16777216,1,2]}})"
        "\n");
}

TEST_CASE(
    "a run takes over whole lines up to the step it resumes from, and none of a file that is not there") {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "run");
  const std::string first = R"({"step":1,"tokens_per_expert":{}})",
                    second = R"({"step":4,"tokens_per_expert":{}})";
  ExpertLoadWriter writer(scratch / "run", kRouters);
  const auto taken = [&](const std::string& earlier, std::int64_t step) {
    write_text(scratch / "earlier/expert_load.jsonl", earlier);
    const std::size_t before = text_of(scratch / "run/expert_load.jsonl").size();
    writer.take_over(scratch / "earlier", step);
    return text_of(scratch / "run/expert_load.jsonl").substr(before);
  };
  CHECK(taken(first + "\n" + second + "\n", 3) == first + "\n");
  CHECK(taken(first + "\n" + second + "\n", 4) == first + "\n" + second + "\n");
  CHECK(taken(first + "\n" + second, 4) == first + "\n");  // its last line was cut short
  CHECK(taken(first + "\n[7]\n" + second + "\n", 4) == first + "\n");
  std::filesystem::remove_all(scratch / "earlier");
  writer.take_over(scratch / "earlier", 4);
  CHECK(lines_of(scratch / "run/expert_load.jsonl").size() == 5);
}

}  // namespace
}  // namespace rondo

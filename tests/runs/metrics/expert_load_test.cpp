// Tests the lines of expert_load.jsonl.
#include "runs/metrics/expert_load.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/runs/metrics/scratch.h"

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

}  // namespace
}  // namespace rondo

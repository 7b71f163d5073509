#include "parallel/pipeline/layers.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

namespace rondo::pipeline {
namespace {

std::string rule_of(const std::string& text) {
  std::vector<StageLayers> stages;
  return read_layout(text, stages);
}

std::string reprinted(const std::string& text) {
  std::vector<StageLayers> stages;
  CHECK(read_layout(text, stages) == "");
  return print_layout(stages);
}

TEST_CASE("a layout in Megatron's form is read, with repetitions") {
  std::vector<StageLayers> stages;
  CHECK(read_layout("Et*3|(tt|)*29,m|L", stages) == "");
  REQUIRE(stages.size() == 32);
  CHECK(stages[0] == StageLayers{true, false, 3, 0});
  for (int i = 1; i < 30; ++i) CHECK(stages[i] == StageLayers{false, false, 2, 0});
  CHECK(stages[30] == StageLayers{false, false, 0, 1});
  CHECK(stages[31] == StageLayers{false, true, 0, 0});
  CHECK(reprinted("Ett|tt|t,tL") == "Et*2|t*2|t*2L");
  CHECK(reprinted("E|(t(t|)*2)*2|L") == "E|t*2|t|t*2|t||L");
  CHECK(reprinted("EtL") == "EtL");
  CHECK(reprinted("Et*7|(t*8|)*14t*7L") == "Et*7|(t*8|)*14t*7L");
  CHECK(reprinted("E|t||||L") == "E|t|(|)*3L");
}

TEST_CASE("a bad layout is refused with the rule") {
  CHECK(rule_of("Et|x|L") == "must consist of E, t, m, L, | and repetitions such as t*3 and (tt|)*29");
  const std::string order =
      "must be one E, layers t, optional layers m of multi-token prediction, and one L, in this "
      "order";
  for (const char* text : {"t|L", "Et", "EL", "EtE|L", "Etmt|L", "EtL|t", "tEL", ""})
    CHECK(rule_of(text) == order);
  const std::string star = "must have a letter or a group before each *, and 1 to 65535 after it";
  for (const char* text : {"*3", "Et*", "Et*0L", "Et*99999L", "Et*3*3L"}) CHECK(rule_of(text) == star);
  CHECK(rule_of("E(t|L") == "must close its brackets");
  CHECK(rule_of("Et)|L") == "must open its brackets");
  CHECK(rule_of("E((t*9999)*9999)*9999L") == "must have fewer layers");
  CHECK(rule_of(std::string(40, '(')) == "must nest at most 16 brackets");
}

std::string split(int layers, int stages, const EndCosts& ends) {
  return print_layout(split_layers(layers, stages, ends));
}

TEST_CASE("layers are split as in torchtitan, where torchtitan accepts the shape") {
  // torchtitan's rule: each stage has (layers + weights of both ends) / stages, the first ones one
  // more, and the end stages have their weights less.
  for (int layers = 4; layers < 140; ++layers)
    for (int stages = 2; stages <= 16; ++stages)
      for (int first = 0; first <= 2; ++first)
        for (int last = 0; last <= 2; ++last) {
          const int total = layers + first + last, each = total / stages, larger = total % stages;
          if (each <= std::max(first, last)) continue;
          std::vector<StageLayers> expected(stages);
          for (int i = 0; i < stages; ++i) expected[i].layers = each + (i < larger ? 1 : 0);
          expected.front().layers -= first;
          expected.back().layers -= last;
          expected.front().embedding = expected.back().loss = true;
          INFO(layers << " layers, " << stages << " stages, ends " << first << " and " << last);
          REQUIRE(split_layers(layers, stages, {double(first), double(last)}) == expected);
        }
  CHECK(split(126, 16, {1, 1}) == "Et*7|(t*8|)*14t*7L");
  CHECK(split(12, 4, {0, 0}) == "Et*3|(t*3|)*2t*3L");
}

TEST_CASE("no split has a smaller largest stage") {
  for (int layers = 2; layers <= 9; ++layers)
    for (int first = 1; first < layers; ++first)
      for (const EndCosts ends : {EndCosts{0, 0}, EndCosts{0.3, 2.5}, EndCosts{4, 1}}) {
        const auto largest = [&](const std::vector<StageLayers>& stages) {
          double most = 0;
          for (const StageLayers& stage : stages) most = std::max(most, cost_of(stage, ends));
          return most;
        };
        // All splits into three stages with at least one layer in the middle.
        const double cost = largest(split_layers(layers, 3, ends));
        for (int second = first; second <= layers; ++second) {
          if (second == first) continue;
          CHECK(cost <= largest({{true, false, first, 0},
                                 {false, false, second - first, 0},
                                 {false, true, layers - second, 0}}));
        }
      }
  CHECK(split_layers(5, 8, {}).empty());
  CHECK(split(6, 8, {}) == "E|(t|)*6L");
  CHECK(split(6, 1, {}) == "Et*6L");
}

}  // namespace
}  // namespace rondo::pipeline

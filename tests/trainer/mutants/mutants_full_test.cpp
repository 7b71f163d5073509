// Tests hundreds of generated mistakes on real ranks. Label `full`.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <iterator>

#include "tests/trainer/mutants/played.h"

namespace rondo {

TEST_CASE("99 in 100 generated mistakes are refused, or change numbers when steps are run") {
  const Verdicts all = played(/*sample=*/150, /*seed=*/2);
  const std::vector<Verdict>& verdicts = all.at("machine");
  std::string escaped;
  for (const Verdict& verdict : verdicts)
    if (!verdict.caught()) escaped += verdict.job + ": " + verdict.name + "\n";
  INFO(escaped);
  const auto caught = std::count_if(verdicts.begin(), verdicts.end(),
                                    [](const Verdict& verdict) { return verdict.caught(); });
  CHECK(verdicts.size() >= 400);
  CHECK(caught * 100 >= std::ssize(verdicts) * 99);
}

}  // namespace rondo

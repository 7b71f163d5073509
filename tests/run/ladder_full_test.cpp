// Tests the whole matrix of the ladder. Label `full`.
#include <catch2/catch_template_test_macros.hpp>

#include "tests/run/ladder.h"

namespace rondo {
namespace {

TEMPLATE_TEST_CASE_SIG("eager, interpreted and replayed steps have the same bits, ranks", "",
                       ((int Ranks), Ranks), 1, 2, 3, 4) {
  for (int setting = 0; setting < 16; ++setting)
    climb({Ranks, (setting & 1) != 0, (setting & 2) != 0, (setting & 4) != 0, (setting & 8) != 0});
}

TEST_CASE("replicas, sharded or not, have the same bits eager, interpreted and replayed") {
  for (const Grid& grid : {Grid{2, 1}, Grid{3, 1}, Grid{4, 1}, Grid{2, 2}})
    for (int setting = 0; setting < 16; ++setting)
      climb({grid.ranks(), (setting & 1) != 0, (setting & 2) != 0, (setting & 4) != 0, (setting & 8) != 0},
            grid.flags());
}

TEMPLATE_TEST_CASE_SIG("every memory policy has the bits of the eager step, ranks", "", ((int Ranks), Ranks),
                       1, 2, 3, 4) {
  for (int setting = 0; setting < 16; ++setting)
    keep_and_recompute(
        {Ranks, (setting & 1) != 0, (setting & 2) != 0, (setting & 4) != 0, (setting & 8) != 0}, kPolicies);
}

TEST_CASE("leaving out an exact pass changes no bit, with each executor and each kind of step") {
  for (const char* executor : {"interpreter", "replay"})
    for (const bool bfloat16 : {false, true})
      for (const bool accumulates : {false, true})
        leave_out_passes({2, bfloat16, accumulates, false, true}, executor);
}

}  // namespace
}  // namespace rondo

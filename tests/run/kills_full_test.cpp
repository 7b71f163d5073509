// The same as kills_test, a hundred times.
#include "tests/run/kills.h"

namespace rondo {
namespace {

TEST_CASE("a run killed a hundred times, forty times inside a save, ends with the bits of one that was not") {
  KilledRun run(2);
  for (int trial = 0; trial < 100; ++trial) {
    INFO("trial " << trial);
    if (trial % 5 < 2) {
      run.kill_inside_a_save();
    } else {
      run.kill_anywhere();
    }
  }
  run.check_bits();
}

}  // namespace
}  // namespace rondo

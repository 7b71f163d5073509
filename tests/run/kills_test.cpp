#include "tests/run/kills.h"

namespace rondo {
namespace {

TEST_CASE(
    "a run killed at any moment loses no committed checkpoint and ends with the bits of a run that was not") {
  KilledRun run(1);
  for (int trial = 0; trial < 3; ++trial) {
    run.kill_anywhere();
    run.kill_inside_a_save();
  }
  run.check_bits();
}

}  // namespace
}  // namespace rondo

// Compares runs that resume in another way of training with a run that does not stop.
#pragma once

#include "tests/run/checkpoints.h"
#include "tests/run/ladder.h"

namespace rondo {

// Checks on two ranks that checkpoints of runs with the flags `plain` resume as runs with `other`,
// and the other way round, with the bits and the checkpoint of a run that does not stop. `saving`
// are flags of all runs, which have four steps and save after the second.
inline void check_resumes_either_way(const Words& plain, const Words& other, const Words& saving) {
  const Place place;
  place.play(2, "straight", plain + saving);
  for (const bool other_first : {false, true}) {
    const std::string name = other_first ? "other first" : "other last";
    const Words first = other_first ? other : plain, last = other_first ? plain : other;
    place.play(2, name, first + saving + steps(2));
    place.play(2, name, last + saving);
    check_equal(place, "straight", name, 4);
    check_same_tensors(place / "straight/checkpoint/step-4", place / (name + "/checkpoint/step-4"));
  }
}

}  // namespace rondo

// Hand-written mistakes of dividing a train step over ranks, each at a place of a real step and in
// a layout where it matters. tests/compiler/verify/mutants.h generates mistakes at every place.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/derived/pipeline_layout.h"
#include "tests/compiler/verify/patient.h"

namespace rondo {

struct Mistake {
  std::string_view job;       // by name (played.h)
  std::string_view function;  // of its step: "train_step"; in a pipeline, a stage of some ranks
  std::string name;
  std::function<void(ir::Patient&)> make;
  bool after_passes = false;  // in the graph after the passes, not in the traced graph
  // Alternative for a pipeline: changes its programs, which are then proven again, or the result of
  // the proof.
  std::function<void(PipelineLayout&)> make_in_schedule = {};
};
const std::vector<Mistake>& mistakes();

}  // namespace rondo

// Mistakes that people make when they divide a train step over ranks, written by hand: each at a place of a
// real step, and in a layout where it matters. Those that a machine makes at every place are in
// tests/compiler/verify/mutants.h.
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
  std::string_view function;  // of its step: "train_step"; of a pipeline, a stage that some ranks have
  std::string name;
  std::function<void(ir::Patient&)> make;
  bool after_passes = false;  // in the graph that passes have left, and not in that of the trace
  // Instead, of a pipeline: in its programs, which are then proven anew, or behind their proof.
  std::function<void(PipelineLayout&)> make_in_schedule = {};
};
const std::vector<Mistake>& mistakes();

}  // namespace rondo

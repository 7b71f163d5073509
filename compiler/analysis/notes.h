// Notes of a pass, for the log and the pipeline.
#pragma once

#include <string>
#include <vector>

namespace rondo::ir {

// Lines about decisions of a pass, and about what it could not do and why.
struct Notes : std::vector<std::string> {
  using std::vector<std::string>::vector;
  bool unchanged = false;  // the graph is unchanged and needs no further check
};

// Returned by a pass that finds nothing to do.
inline Notes unchanged(Notes notes = {}) {
  notes.unchanged = true;
  return notes;
}
// Returned by a pass that needs a graph without overwrites and therefore changes nothing.
inline Notes left_alone() {
  return unchanged({"nothing done: nodes of this graph already overwrite their operands"});
}

}  // namespace rondo::ir

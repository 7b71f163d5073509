// What a pass has to say, for the log and to the pipeline.
#pragma once

#include <string>
#include <vector>

namespace rondo::ir {

// Line by line: what a pass decided, what it could not do and why.
struct Notes : std::vector<std::string> {
  using std::vector<std::string>::vector;
  bool unchanged = false;  // the graph is what it was, to the letter, and needs no other check
};

// Of a pass that finds nothing to do.
inline Notes unchanged(Notes notes = {}) {
  notes.unchanged = true;
  return notes;
}
// Of one that needs a graph without overwrites, where there are some: it leaves the graph alone.
inline Notes left_alone() {
  return unchanged({"nothing done: nodes of this graph overwrite their operands already"});
}

}  // namespace rondo::ir

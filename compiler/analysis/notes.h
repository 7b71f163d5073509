// What a pass has to say for the log.
#pragma once

#include <string>
#include <vector>

namespace rondo::ir {

// Line by line: what a pass decided, what it could not do and why.
using Notes = std::vector<std::string>;

// What a pass that needs a graph without overwrites says of one with them: it leaves it alone.
inline Notes left_alone() { return {"nothing done: nodes of this graph overwrite their operands already"}; }

}  // namespace rondo::ir

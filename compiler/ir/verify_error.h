// The exception of the rules of the verifier (compiler/verify/verify.h).
#pragma once

#include <string>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// A broken rule: the node (kNoNode: the graph as a whole) and the problem.
struct VerifyError {
  NodeIndex node = kNoNode;
  std::string what;
};

}  // namespace rondo::ir

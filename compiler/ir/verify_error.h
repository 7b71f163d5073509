// What the rules of the verifier (compiler/verify/verify.h) throw.
#pragma once

#include <string>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// A broken rule: at which node (kNoNode: the graph as a whole), and what is wrong with it.
struct VerifyError {
  NodeIndex node = kNoNode;
  std::string what;
};

}  // namespace rondo::ir

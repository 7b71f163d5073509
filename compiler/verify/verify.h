// What every graph must satisfy, as named rules. Run after the trace and after every pass that
// changes the graph, in every build.
#pragma once

#include <span>
#include <string_view>

#include "compiler/ir/verify_error.h"
#include "support/error.h"

namespace rondo::ir {

// Linear in the graph. A rule may rely on the rules above it in the list.
struct Rule {
  std::string_view name;
  std::string_view description;
  void (*check)(const Graph&);  // throws VerifyError
};
std::span<const Rule> rules();

struct RuleBroken : Error {
  using Error::Error;
};

// Throws RuleBroken(ExitCode::graph) for the first rule that is broken: "the graph NAME breaks rule R after
// PASS: node N (op, module): what". `after_pass` says who is to blame: "trace", "parse", a pass.
void verify(const Graph& graph, std::string_view after_pass);

}  // namespace rondo::ir

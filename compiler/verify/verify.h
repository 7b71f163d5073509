// The rules that every graph must satisfy. They run after the trace and after every pass that
// changes the graph, in every build. `rondo plan` runs them after the trace and the last pass.
#pragma once

#include <span>
#include <string_view>

#include "compiler/ir/verify_error.h"
#include "support/error.h"

namespace rondo::ir {

// A check takes time linear in the graph, and may rely on the rules before it in the list.
struct Rule {
  std::string_view name;
  std::string_view description;
  void (*check)(const Graph&);  // throws VerifyError
};
std::span<const Rule> rules();

struct RuleBroken : Error {
  using Error::Error;
};

// Throws RuleBroken(ExitCode::graph) for the first broken rule: "the graph NAME breaks rule R after
// PASS: node N (op, module MODULE) problem". `after_pass` names the origin of the graph: "trace",
// "parse" or a pass.
void verify(const Graph& graph, std::string_view after_pass);

}  // namespace rondo::ir

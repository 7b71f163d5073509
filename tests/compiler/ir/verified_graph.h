// Parses a graph and verifies it.
#pragma once

#include <string_view>

#include "compiler/text/text.h"
#include "compiler/verify/verify.h"

namespace rondo::ir {

inline Graph verified_graph(std::string_view text) {
  Graph graph = parse(text, "test.ir");
  verify(graph, "parse");
  return graph;
}

}  // namespace rondo::ir

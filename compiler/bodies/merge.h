// A forward and a backward of different microbatches, as one graph: so that the one computes while the other
// communicates, once a pass has put their nodes into one order (passes/overlap_microbatches.cpp). Plain C++.
#pragma once

#include <string>
#include <string_view>

#include "compiler/bodies/bodies.h"

namespace rondo::ir {

// The nodes of `forward`, then those of `backward`, then sums of both. An input of both is one: a parameter,
// or other state. What belongs to a microbatch or lies in its slot, kinds `batch` and `saved`, is two, named
// by name_in_pair.
Graph merge_bodies(const Graph& forward, const Graph& backward);

// "forward.tokens", "backward.tokens".
std::string name_in_pair(bool of_forward, std::string_view name);
// What name_in_pair was given. REQUIRES: one of its results.
struct NameInPair {
  bool of_forward = true;
  std::string name;
};
NameInPair read_name_in_pair(std::string_view name);

}  // namespace rondo::ir

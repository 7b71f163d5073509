// Finds linear layers with a common input, and their backward, for passes/merge_linears.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/ir/def_use.h"
#include "compiler/ir/ir.h"

namespace rondo::ir {

constexpr std::string_view kProduct = "aten.mm.default", kTranspose = "aten.t.default",
                           kGatedUnit = "rondo.swiglu.default",
                           kGatedBackward = "rondo.swiglu_backward.default";

// A linear layer: y = x * transposed weight.
struct Linear {
  std::int32_t parameter = -1;  // index of the input
  NodeIndex forward = kNoNode;
  ValueId weight = kNoValue, y = kNoValue;  // [N, D], [T, N]
  // The backward, if there is one: the products grad * weight and transposed grad * x.
  NodeIndex of_input = kNoNode, of_weight = kNoNode;
  ValueId grad = kNoValue, backward_weight = kNoValue;  // [T, N], [N, D]
};

// Two or more layers of x [T, D]. All have a backward, or none has one.
struct LinearGroup {
  ValueId x = kNoValue;
  std::vector<Linear> linears = {};
  bool backward = false;
  // False where a weight gradient is a result of the graph and needs its own storage.
  bool merges_weight_gradients = false;
  std::vector<NodeIndex> sums = {};  // of `of_input` results alone; the last sums all

  bool reads_forward_weights() const;  // in the backward
};

// Returns the groups in forward order. Layers whose results are read by one gated unit form their
// own group. REQUIRES: no node overwrites anything; no node is dead.
std::vector<LinearGroup> linear_groups(const Graph& graph, const DefUse& def_use);

}  // namespace rondo::ir

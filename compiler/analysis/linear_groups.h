// Linear layers of one input, with their backward, for passes/merge_linears.cpp.
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

// y = x * transposed weight.
struct Linear {
  std::int32_t parameter = -1;  // index of the input
  NodeIndex forward = kNoNode;
  ValueId weight = kNoValue, y = kNoValue;  // [N, D], [T, N]
  // The backward, if there is one: the products grad * weight and transposed grad * x.
  NodeIndex of_input = kNoNode, of_weight = kNoNode;
  ValueId grad = kNoValue, backward_weight = kNoValue;  // [T, N], and [N, D] as read there
};

// At least two layers of x [T, D], all with a backward or none.
struct LinearGroup {
  ValueId x = kNoValue;
  std::vector<Linear> linears = {};
  bool backward = false;
  // Whether no gradient of a weight is a result of the graph, which needs a storage of its own.
  bool merges_weight_gradients = false;
  std::vector<NodeIndex> sums = {};  // of what `of_input` make, and of nothing else; the last one is of all

  bool reads_forward_weights() const;  // the backward does
};

// In the order of the forward. Layers whose results one gated unit reads are a group of their own.
// REQUIRES: no node overwrites anything; no node is dead.
std::vector<LinearGroup> linear_groups(const Graph& graph, const DefUse& def_use);

}  // namespace rondo::ir

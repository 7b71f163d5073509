// Products of which cuBLASLt has several algorithms to choose from, for passes/choose_matmul_algorithms.cpp
// and `rondo tune`.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "ops/matmul/matmul_algorithm.h"

namespace rondo::ir {

struct Product {
  NodeIndex node = kNoNode;
  MatmulShape shape;
  std::string key;  // product_key
};

// Equal where nothing differs that decides how fast a product is: "mm(bf16[64,32],bf16[32,48]{1,32})", or
// "addmm(...)" where it is added to a sum, in place or not. Of LibTorch's products and of those by a chosen
// algorithm; "" of any other node.
std::string product_key(const Graph& graph, const Node& node);

// aten.mm, and aten.addmm of a sum and with both factors 1: of bf16, with dense rows or columns that begin at
// multiples of 16 bytes.
std::vector<Product> matmul_products(const Graph& graph);

}  // namespace rondo::ir

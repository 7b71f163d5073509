// Matrix products for which cuBLASLt has several algorithms, for
// passes/choose_matmul_algorithms.cpp and `rondo tune`.
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

// Returns a key that is equal for products of equal speed: "mm(bf16[64,32],bf16[32,48]{1,32})", or
// "addmm(...)" if it is added to a sum, in place or not. Covers products of LibTorch and those with
// a chosen algorithm. Returns "" for other nodes.
std::string product_key(const Graph& graph, const Node& node);

// Returns the nodes aten.mm, and aten.addmm with a sum and both factors 1, on bf16 matrices with
// dense rows or columns that begin at multiples of 16 bytes.
std::vector<Product> matmul_products(const Graph& graph);

}  // namespace rondo::ir

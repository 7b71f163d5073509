//   %3 = aten.mm.default(%1, %2)        ->     %3 = rondo.mm.default(%1, %2, "130100:0:42.1c...")
//
// Applies where the table of CompileOptions has an algorithm for the product's key. `rondo tune`
// measures a table once, and not in each run, so that restarts and replicas have the bits of their
// first run.
#include <fmt/format.h>

#include "compiler/passes/passes.h"
#include "compiler/plan/matmul_products.h"

namespace rondo::ir {

Notes choose_matmul_algorithms(Graph& graph, const CompileOptions& options) {
  if (options.matmul_algorithms.empty()) return unchanged();
  const std::vector<Product> products = matmul_products(graph);
  std::size_t chosen = 0, unknown = 0;
  for (const Product& product : products) {
    const auto row = options.matmul_algorithms.find(product.key);
    unknown += row == options.matmul_algorithms.end();
    if (row == options.matmul_algorithms.end() || row->second.empty()) continue;
    Node& node = graph.nodes[product.node];
    node.op = product.shape.adds ? "rondo.addmm.default" : "rondo.mm.default";
    node.args.resize(product.shape.adds ? 3 : 2);
    node.args.emplace_back(row->second);
    node.origin = "choose_matmul_algorithms";
    ++chosen;
  }
  Notes notes;
  if (chosen > 0)
    notes.push_back(fmt::format("chose measured algorithms for {} of {} products", chosen, products.size()));
  if (unknown > 0)
    notes.push_back(
        fmt::format("{} products are not in compile.matmul_algorithms and keep LibTorch's algorithm; run "
                    "`rondo tune` to measure a configuration",
                    unknown));
  notes.unchanged = chosen == 0;
  return notes;
}

}  // namespace rondo::ir

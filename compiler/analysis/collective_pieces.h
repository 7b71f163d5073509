// Cuts an all-gather or reduce-scatter of activations into pieces, together with the products that
// read or make it (compiler/passes/async_tensor_parallel.cpp).
//
// A gather of x [M, D] from n ranks is cut by the M rows of a rank: piece i gathers [n * m, D], and
// its products are [n * m, N]. They are concatenated to [n, M, N], which is the order of the ranks.
// A reduce-scatter of [T, N] is cut by columns: piece i is a product [T, w], and the results
// [T / n, w] are concatenated along columns. Weights are sliced, not copied.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/analysis/schedule.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/ir.h"

namespace rondo::ir {

// On the CPU, products of fewer rows or columns than this, or of another multiple, may add up in
// another order (measured with LibTorch 2.11, fp32 and bf16).
constexpr std::int64_t kRowsOrColumnsOfPieces = 16;

// A change of the graph that replaces one collective and its products.
struct CollectivePieces {
  std::vector<Node> nodes;
  std::vector<Place> places;  // of `nodes`
  std::vector<NodeIndex> dropped;
  std::vector<std::pair<ValueId, ValueId>> replaced;  // old and new value
  NodeIndex first = 0, last = 0;                      // the part of the schedule that changes
};

// REQUIRES: no node overwrites anything, and nodes do not move while the object exists.
class CollectiveCutter {
 public:
  // New nodes have the origin `origin`.
  CollectiveCutter(Graph& graph, std::string_view origin);

  // Returns the cut of the collective that starts at a node, or nothing if `pieces` do not divide
  // it into multiples of kRowsOrColumnsOfPieces. Adds the values of the new nodes to the graph.
  // Returns a cut with one piece for every collective that can be cut.
  //
  // A gather can be cut if products of its phase read it as their left operand, in float8 with a
  // scale for each row. A reduce-scatter can be cut if it sums products, or sums of products, that
  // nothing else reads.
  std::optional<CollectivePieces> cut(NodeIndex start, std::int64_t pieces);

  // Marks the dropped nodes, which later cuts do not change.
  void accept(const CollectivePieces& pieces);
  const std::vector<bool>& kept() const { return keep_; }  // by node

 private:
  // A product whose left operand is gathered rows, or the result of a quantization of them.
  struct RowProduct {
    NodeIndex node = kNoNode, quantization = kNoNode;
  };

  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  std::optional<CollectivePieces> cut_gather(NodeIndex start, std::int64_t pieces);
  bool add_products(ValueId rows, Phase phase, std::vector<RowProduct>& products) const;
  bool is_left_operand(ValueId id, NodeIndex product, Phase phase, std::size_t right) const;
  bool feeds_products_only(const Node& quantization, Phase phase) const;
  std::vector<ValueId> quantize(CollectivePieces& cut, Place place, NodeIndex quantization, ValueId part,
                                std::int64_t rows);

  std::optional<CollectivePieces> cut_reduce_scatter(NodeIndex start, std::int64_t pieces);
  bool add_terms(ValueId id, NodeIndex reader, std::int64_t width, CollectivePieces& cut) const;
  std::int64_t columns_of_scale(const Node& product) const;
  ValueId columns_of(CollectivePieces& cut, Place place, ValueId id, std::int64_t begin, std::int64_t end);

  std::vector<ValueId> emit_all(CollectivePieces& cut, Place place, Node node, std::vector<TensorType> types,
                                ValueId views = kNoValue);
  ValueId emit(CollectivePieces& cut, Place place, Node node, TensorType type, ValueId views = kNoValue);
  ValueId slice(CollectivePieces& cut, Place place, const Node& other, ValueId of, std::int64_t dim,
                std::int64_t begin, std::int64_t end);
  ValueId view(CollectivePieces& cut, Place place, const Node& other, ValueId of,
               std::vector<std::int64_t> sizes);

  Graph& graph_;
  const std::string_view origin_;
  const IdMap<NodeIndex> waits_;
  const DefUse def_use_;
  std::vector<bool> keep_;
};

}  // namespace rondo::ir

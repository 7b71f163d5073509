// Finds the head's product, the cross-entropy and their backward in a traced graph, for
// passes/chunk_loss.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/def_use.h"
#include "compiler/ir/ir.h"

namespace rondo::ir {

constexpr std::string_view kCrossEntropy = "rondo.cross_entropy.default", kAmax = "aten.amax.default";

// Why what looks like a loss is none that can be chunked.
struct LossMiss {
  std::string why;
};

// The product that makes the logits.
struct LossHead {
  ValueId h = kNoValue, weight = kNoValue;  // [N, D], [V, D]
  ValueId product = kNoValue;               // [N, V], in their dtype
  ValueId logits = kNoValue;                // what the loss reads: the same, or cast to `sums`
  DType sums = DType::f32;                  // f64 for logits in f64
  std::string module;
};

// The products that follow from the gradient of the logits.
struct HeadBackward {
  ValueId grad_h = kNoValue, grad_weight = kNoValue;
  ValueId h = kNoValue, weight = kNoValue;  // as read here: gathered again, maybe
  NodeIndex first = 0;                      // node: the first of the two
};

// sum over rows with a label / valid, of all classes. Without a backward, `mean` and `ones` are not looked
// for.
struct WholeLoss {
  LossHead head;
  // Nodes: the loss, its division by `valid`, the seed of the backward.
  NodeIndex loss = 0, mean = 0, ones = 0;
  ValueId sum = kNoValue, labels = kNoValue, valid = kNoValue;
  std::int64_t ignored = 0;
  std::optional<HeadBackward> backward = {};
};

// What a rank with a shard of the classes computes of it (parallel/tensor_parallel.cpp).
struct ShardLoss {
  LossHead head;
  NodeIndex amax = 0, sum_node = 0;
  ValueId largest = kNoValue, sum = kNoValue;  // [N]: of the shard, the sum with the largest of all
  ValueId largest_of_all = kNoValue;           // [N]
  ValueId place = kNoValue, logit = kNoValue;  // [N, 1]: of the label
  // For the backward, all [N, 1].
  ValueId gradient_place = kNoValue, largest_column = kNoValue, sum_column = kNoValue;
  ValueId gradient = kNoValue, place_gradient = kNoValue;
  std::optional<HeadBackward> backward = {};
};

// REQUIRES: no dead nodes. Valid while no node is added, dropped or moved; values may be added.
class LossMatcher {
 public:
  explicit LossMatcher(const Graph& graph);

  // Nodes that read a value, once for each read.
  std::span<const NodeIndex> readers(ValueId id) const { return def_use_.readers(id); }

  // Whether a loss begins at this node, as far as it alone can say.
  bool begins_whole(NodeIndex node) const;
  bool begins_shard(NodeIndex node) const;
  // Throw LossMiss.
  WholeLoss whole(NodeIndex loss) const;
  ShardLoss shard(NodeIndex amax) const;

 private:
  const Node& node(NodeIndex i) const { return graph_.nodes[i]; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  const Node* made_by(ValueId id, std::string_view op) const;
  NodeIndex only_reader(ValueId id, std::string_view op) const;
  NodeIndex reader(ValueId id, std::string_view op) const;
  ValueId column_source(ValueId column) const;
  bool same_content(ValueId a, ValueId b) const;
  LossHead head_of(ValueId logits) const;
  HeadBackward backward_of(ValueId grad_logits, const LossHead& head) const;
  void find_seed(WholeLoss& loss, ValueId gradient) const;
  void find_gradients(ShardLoss& loss, ValueId powers) const;

  const Graph& graph_;
  DefUse def_use_;
};

}  // namespace rondo::ir

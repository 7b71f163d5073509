// The head's product, the cross-entropy and their backward become ops that take some rows of the batch at a
// time.
//
//   logits = mm(h, t(weight))                    gradient of a loss = 1 / valid
//   sum, ... = cross_entropy(logits, labels)     losses, grad_h, grad_weight, _ =
//   loss = sum / valid                       ->      linear_cross_entropy(h, weight, labels, that gradient)
//   grad = ..._backward(1 / valid, ...)          loss = sum(losses) / valid
//   grad_h = mm(grad, weight)
//   grad_weight = mm(t(grad), h)
//
// Logits and their gradient are tensors of [rows, vocabulary], the largest that a step has; a chunk at a time
// they are one, and small. Since the gradient of every loss is known before any loss is, one sweep makes
// both.
//
// With a shard of the vocabulary the ranks exchange maxima and sums in between, and these collectives stay:
// one op computes what of a row is exchanged, another computes the logits again for the gradients.
//
// The gradient of the weight is summed over chunks in f32 and rounded once; not even that where it is cast to
// f32 at once. Every chunk reads and writes all of that sum (2.1 GB for Llama 3 8B), so where nobody says how
// many, there are as few as keep a chunk's logits below kMostBytes.
#include <algorithm>

#include "compiler/analysis/fusion.h"
#include "compiler/analysis/loss_pattern.h"
#include "compiler/analysis/schedule.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"
#include "support/error.h"

namespace rondo::ir {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

class LossChunker {
 public:
  LossChunker(Graph& graph, std::int64_t chunks)
      : graph_(graph), match_(graph), chunks_(chunks), places_(present_places(graph)) {}

  Notes run() {
    Notes notes;
    for (NodeIndex i = 0; i < graph_.node_count(); ++i) {
      try {
        if (match_.begins_whole(i)) {
          notes.push_back(chunk(match_.whole(i)));
        } else if (match_.begins_shard(i)) {
          notes.push_back(chunk(match_.shard(i)));
        }
      } catch (const LossMiss& miss) {
        notes.push_back("a loss is left whole: " + miss.why);
      }
    }
    if (made_.empty()) return notes;
    replacement_.resize(graph_.values.size(), kNoValue);
    replace_uses(graph_, replacement_);
    add_and_reorder(graph_, std::move(places_), std::move(made_), made_places_);
    return notes;
  }

 private:
  const Node& node(NodeIndex i) const { return graph_.nodes[i]; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // --- whole vocabularies ---

  std::string chunk(const WholeLoss& loss) {
    const std::int64_t rows = begin(loss.head, loss.backward ? node(loss.mean).phase : Phase::forward);
    place_ = {loss.backward ? loss.mean : loss.loss, -1};
    const ValueId losses = add(contiguous(loss.head.sums, {type(loss.head.h).sizes[0]}));
    if (loss.backward) {
      const Node& ones = node(loss.ones);
      const ValueId one = add(type(loss.valid)), gradient = add(type(loss.valid));
      std::vector<Argument> args = ones.args;
      args[0] = Use{loss.valid};  // its type is all that is read of it
      make(ones.op, std::move(args), {one});
      make("aten.div.Tensor", {Use{one}, Use{loss.valid}}, {gradient});
      const Gradients made = add_gradients(loss.head);
      make("rondo.linear_cross_entropy.default",
           {Use{loss.head.h}, Use{loss.head.weight}, Use{loss.labels}, Use{gradient}, loss.ignored, rows},
           {losses, made.h, made.weight, add(workspace(loss.head, rows))});
      replace(*loss.backward, made);
    } else {
      make("rondo.linear_cross_entropy_losses.default",
           {Use{loss.head.h}, Use{loss.head.weight}, Use{loss.labels}, loss.ignored, rows},
           {losses, add(workspace(loss.head, rows))});
    }
    const ValueId sum = add(type(loss.sum));
    make("aten.sum.default", {Use{losses}, None{}}, {sum});
    replace(loss.sum, sum);
    return described(loss.head, rows);
  }

  // --- shards of a vocabulary ---

  std::string chunk(const ShardLoss& loss) {
    const std::int64_t rows = begin(loss.head, Phase::forward);
    const TensorType of_rows = contiguous(loss.head.sums, {type(loss.head.h).sizes[0]});
    const ValueId largest = add(of_rows), sum = add(of_rows), logit = add(type(loss.logit));
    place_ = {loss.amax, 0};
    make("rondo.linear_cross_entropy_statistics.default",
         {Use{loss.head.h}, Use{loss.head.weight}, Use{loss.place}, rows},
         {largest, sum, logit, add(workspace(loss.head, rows))});
    replace(loss.largest, largest);
    replace(loss.logit, logit);

    // The sum is of powers of the shard's own largest logit; the trace has it of the largest of all.
    const ValueId less = add(of_rows), power = add(of_rows), scaled = add(of_rows);
    place_ = {loss.sum_node, 0};
    make("aten.sub.Tensor", {Use{largest}, Use{loss.largest_of_all}, std::int64_t{1}}, {less});
    make("aten.exp.default", {Use{less}}, {power});
    make("aten.mul.Tensor", {Use{sum}, Use{power}}, {scaled});
    replace(loss.sum, scaled);
    if (loss.backward) chunk_gradients(loss, rows);
    return described(loss.head, rows);
  }

  void chunk_gradients(const ShardLoss& loss, std::int64_t rows) {
    const HeadBackward& backward = *loss.backward;
    phase_ = node(backward.first).phase;
    place_ = {backward.first, 0};
    const Gradients made = add_gradients(loss.head);
    make("rondo.linear_cross_entropy_gradients.default",
         {Use{backward.h}, Use{backward.weight}, Use{loss.gradient_place}, Use{loss.largest_column},
          Use{loss.sum_column}, Use{loss.gradient}, Use{loss.place_gradient}, rows},
         {made.h, made.weight, add(workspace(loss.head, rows))});
    replace(backward, made);
  }

  // --- both ---

  struct Gradients {
    ValueId h, weight;
  };

  // Rows of a chunk.
  std::int64_t begin(const LossHead& head, Phase phase) {
    phase_ = phase;
    module_ = head.module;
    const std::int64_t rows = type(head.h).sizes[0];
    const std::int64_t chunks =
        chunks_ > 0 ? chunks_ : in_parts(storage_bytes(workspace(head, rows)), kMostBytes);
    return in_parts(rows, std::max<std::int64_t>(chunks, 1));
  }
  static std::int64_t in_parts(std::int64_t all, std::int64_t parts) { return (all + parts - 1) / parts; }

  TensorType workspace(const LossHead& head, std::int64_t rows) const {
    return contiguous(type(head.h).dtype, {rows, type(head.weight).sizes[0]});
  }
  Gradients add_gradients(const LossHead& head) {
    const ValueId h = add(type(head.h));
    return {h, add(contiguous(head.sums, type(head.weight).sizes))};
  }

  std::string described(const LossHead& head, std::int64_t rows) const {
    return "logits of " + std::to_string(rows) + " of " + std::to_string(type(head.h).sizes[0]) +
           " rows at a time";
  }

  ValueId add(TensorType type, ValueId views = kNoValue) {
    return graph_.add_value({.type = std::move(type), .views = views});
  }
  void make(std::string op, std::vector<Argument> args, std::vector<ValueId> results) {
    made_.push_back({std::move(op), std::move(args), std::move(results), phase_, module_, "chunk_loss"});
    made_places_.push_back(place_);
  }
  void replace(ValueId old, ValueId by) {
    replacement_.resize(graph_.values.size(), kNoValue);
    replacement_[old] = by;
  }

  void replace(const HeadBackward& backward, const Gradients& made) {
    replace(backward.grad_h, made.h);
    replace_widened(backward.grad_weight, made.weight);
  }

  // `sum` is f32, or f64 like `rounded`, and takes its place: of a cast to f32 of it, or of views of it,
  // without being rounded.
  void replace_widened(ValueId rounded, ValueId sum) {
    if (type(rounded).dtype == type(sum).dtype) return replace(rounded, sum);
    const std::span<const NodeIndex> readers = match_.readers(rounded);
    const Node* reader = readers.size() == 1 ? &node(readers[0]) : nullptr;
    if (reader != nullptr && is_cast(*reader, DType::f32) && type(reader->results[0]) == type(sum))
      return replace(reader->results[0], sum);
    if (reader != nullptr && facts(reader->op).view == ViewKind::same_start && reader->results.size() == 1) {
      const Node view = *reader;  // making adds values, and may move what is referred to
      TensorType widened = type(view.results[0]);
      widened.dtype = DType::f32;
      const ValueId seen = add(std::move(widened), sum);
      std::vector<Argument> args = view.args;
      args[0] = Use{sum};
      make(view.op, std::move(args), {seen});
      return replace_widened(view.results[0], seen);
    }
    const ValueId cast = add(type(rounded));
    make(std::string(kToCopy), {Use{sum}, type(rounded).dtype, None{}, None{}, None{}, false, None{}},
         {cast});
    replace(rounded, cast);
  }

  Graph& graph_;
  LossMatcher match_;
  std::int64_t chunks_;  // 0: by bytes
  std::vector<Place> places_;
  // What is added, and where: phase, module and place of the node to be made next.
  std::vector<Node> made_;
  std::vector<Place> made_places_;
  IdMap<ValueId> replacement_;  // of each value
  Phase phase_ = Phase::forward;
  std::string module_;
  Place place_;
};

bool may_have_a_loss(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return node.op == kCrossEntropy || node.op == kAmax; });
}

}  // namespace

Notes chunk_loss(Graph& graph, const CompileOptions& options) {
  if (overwrites(graph)) return left_alone();
  if (!may_have_a_loss(graph)) return {};
  RONDO_ASSERT(options.loss_chunks >= 0, "compile.loss_chunks is checked with the configuration");
  eliminate_dead_code(graph, options);  // so that a reader is one that counts
  const Notes notes = LossChunker(graph, options.loss_chunks).run();
  eliminate_dead_code(graph, options);
  return notes;
}

}  // namespace rondo::ir

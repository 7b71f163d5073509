// The ops that the compiler knows, one row each, in the file of their family, which also reads
// their arguments by position. A row describes effects, sharding and price, and what passes may do
// with a node. Shapes and aliases of traced nodes are in the graph.
//
// What a row leaves out has the default below. An op without a row has all defaults: it has no
// effect and no view, is cheap, and moves its operands and results once in one launch. A graph with
// a mesh is refused if a node without a rule of sharding has an operand that is not replicated.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

struct NodeCost;  // price.h
struct OnAxis;    // placements.h
struct Priced;    // price.h

// Why a node may not be dropped, merged or moved freely.
enum class Effect : std::uint8_t {
  none,
  collective_start,  // runs in the background: operands are read and results written until the wait
  transfer_start,    // the same, between the device's memory and the host's
  wait,              // the result `views` the result of the start, and is safe to read
  random,            // draws from a generator: neither dropped nor merged
  host_sync,         // the host reads the content of a tensor
};

// Whether a node's operands are read and its results written until the wait for them.
constexpr bool runs_in_background(Effect effect) {
  return effect == Effect::collective_start || effect == Effect::transfer_start;
}

enum class ViewKind : std::uint8_t {
  none,
  same_start,   // the result begins where the operand begins, so its type describes it completely
  moved_start,  // a slice, a piece, a diagonal
};

enum class CollectiveKind : std::uint8_t { all_gather, reduce_scatter, all_reduce, all_to_all, broadcast };
constexpr std::size_t kCollectiveKinds = 5;
std::string_view collective_name(CollectiveKind kind);  // "all-gather"

// What a collective does, and the positions of its arguments; -1: it has no such argument.
struct CollectiveFacts {
  CollectiveKind kind;
  int group = -1;      // a text: the process group
  int ranks = -1;      // an integer: the size of the group
  int reduction = -1;  // a text: "sum", "max"
};

// The counts of a schema, whose first `tensors` arguments are tensors. All 0: not known.
struct Signature {
  std::size_t tensors = 0, arguments = 0, results = 0;
};

// Kinds of ops that rules of several nodes or axes tell apart (compiler/verify/).
enum class OpKind : std::uint8_t {
  other,
  optimizer,  // updates lists of parameters and moments by gradients
  squares,    // sums the squares of each tensor of a list
  list,       // concatenates or stacks a list of tensors
  split,      // cuts a tensor into consecutive pieces
  piece,      // takes one piece
  view,
  product,        // of two matrices, by LibTorch or an algorithm that was measured
  added_product,  // the same, added to a sum
  sum,            // of two tensors
  scaling,        // by a number
  division,       // the same; the number may be a number of ranks
};

// Returns the placement of result `i` on one axis of the mesh. Throws Refused (placements.h).
using ShardingRule = Placement (*)(const OnAxis&, std::size_t i);

struct Op {
  std::string_view name;
  Signature signature = {};  // verified for each node
  Effect effect = Effect::none;
  ViewKind view = ViewKind::none;  // of argument 0
  // All ranks of the group must reach the collective, in one order. With Effect::host_sync it is
  // complete when the node returns.
  std::optional<CollectiveFacts> collective = {};

  // The in-place form (in_place_name) takes the same arguments, gives the same bits, and overwrites
  // the first `overwritten` arguments: result i of the functional form is the i-th tensor of these,
  // lists flattened. 0: there is no in-place form.
  int overwritten = 0;
  // The argument whose memory a plan may give to the first result if this node reads it last: the
  // kernel reads each element before it writes the element in its place. -1: none.
  int reuses = -1;
  // The argument, a tensor or a list, that the kernel takes in bf16 where its others are f32, with
  // the same bits as if it were cast. -1: none.
  int widens = -1;
  bool slow_to_repeat = false;  // although it multiplies no matrices
  bool of_linear = false;       // a linear layer's product: selective checkpointing keeps every second one
  bool of_experts = false;      // takes longer on the rank whose experts have more rows

  // Sharding (compiler/verify/). An in-place form is sharded by the row of its functional form.
  ShardingRule shard = nullptr;  // nullptr: only replicated operands are accepted
  OpKind kind = OpKind::other;
  int group = -1;            // the argument that names a group, of an op that is no collective
  bool keeps_parts = false;  // each part of a buffer stays where it is
  bool keeps_owner = false;  // the result is of the same parameter as the operand; keeps_parts implies it

  // Price. `flops` and `cost` are nullptr of an op that multiplies no matrices: it costs its bytes.
  double (*flops)(const Graph&, const Node&) = nullptr;
  NodeCost (*cost)(const Priced&) = nullptr;             // of its arithmetic; called if it has flops
  double (*bytes)(const Graph&, const Node&) = nullptr;  // nullptr: operands and results, once each
  std::int64_t launches = 1;                             // kernels, copies and fills on a GPU
  std::int64_t (*count_launches)(const Graph&, const Node&) = nullptr;  // where they depend on the node
  bool allocates = false;                                               // it leaves its result uninitialized

  // Whether its result is worth saving rather than recomputing: products of matrices, attention.
  constexpr bool is_heavy() const { return flops != nullptr; }
};

constexpr bool is_collective(const Op& op) { return op.collective.has_value(); }

// The rows of all ops, and of each family.
const std::vector<Op>& all_ops();
std::span<const Op> arithmetic_ops(), attention_ops(), collective_ops(), loss_ops(), norm_ops(),
    optimizer_ops(), product_ops(), row_ops(), view_ops();
// The row of an op; the defaults if it has none.
const Op& facts(std::string_view op);
// The row of "aten.add.Tensor" for "aten.add_.Tensor"; facts(op) of an op that overwrites nothing.
const Op& functional_facts(std::string_view op);
std::string in_place_name(const Op& op);  // "aten.add_.Tensor" of the row of "aten.add.Tensor"

// Ops that several files make or look for.
constexpr std::string_view kAllGather = "_c10d_functional.all_gather_into_tensor.default";
constexpr std::string_view kReduceScatter = "_c10d_functional.reduce_scatter_tensor.default";
constexpr std::string_view kAllReduce = "_c10d_functional.all_reduce.default";
constexpr std::string_view kWaitTensor = "_c10d_functional.wait_tensor.default";
constexpr std::string_view kOffload = "rondo.offload.default";
constexpr std::string_view kReload = "rondo.reload.default";
constexpr std::string_view kWaitTransfer = "rondo.wait_transfer.default";
constexpr std::string_view kToCopy = "aten._to_copy.default";

// A collective as its node describes it. The texts live as long as the node.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_gather;
  std::string_view group;
  std::int64_t ranks = 0;      // 0: the node has no such argument
  std::string_view reduction;  // empty: it reduces nothing
};
std::optional<Collective> collective_of(const Node& node);  // empty: the node is no collective
// Whether the node is an all-to-all in which every rank sends the same number of rows to each rank.
bool sends_equal_pieces(const Node& node);
bool is_collective(const Node& node, CollectiveKind kind);

// What aten.slice (self, dim, start, end, step) and aten.select (self, dim, index) take, and the
// dimension along which aten.split (self, size or sizes, dim) divides.
struct Piece {
  std::int64_t dim, begin;
  explicit Piece(const Node& node) : dim(integer(node, 1)), begin(integer(node, 2)) {}
};
inline std::int64_t dim_of_split(const Node& node) { return integer(node, 2); }

// The arguments that are lists of tensors and not empty: those of the optimizer.
std::vector<const UseList*> lists_of(const Node& node);

// Whether the node is an aten._to_copy that neither moves its operand to another device nor pins
// it. The types describe what it does to dtype and strides.
bool converts_on_device(const Node& node);

// For each node that starts work in the background the node that waits for it, else kNoNode.
IdMap<NodeIndex> waits_of_starts(const Graph& graph);
// For each root of a storage (compiler/ir/storages.h) the last node at which the storage must
// exist: the last that makes or reads a value in it, or the wait for a collective or a transfer
// that reads it. kNoNode for an input that no node reads.
IdMap<NodeIndex> last_needed(const Graph& graph, const IdMap<ValueId>& roots);

// Floating-point operations of a heavy node (a multiply-add is 2), 0 for the others. Attention
// counts the pairs that its mask lets meet; each row is taken as one document.
double flops(const Graph& graph, const Node& node);

}  // namespace rondo::ir

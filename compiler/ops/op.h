// The ops that the compiler knows, one row each. A row is in the file of its family, which also
// reads the op's arguments by position. It describes effects, sharding and price, and what passes
// may do with a node. Shapes and aliases of traced nodes are in the graph.
//
// Members that a row omits have the defaults below. An op without a row has all defaults: it has no
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

// Why a node may not be removed, merged or moved freely.
enum class Effect : std::uint8_t {
  none,
  collective_start,  // runs in the background: operands are read and results written until the wait
  transfer_start,    // the same, between the device's memory and the host's
  wait,              // the result `views` the result of the start, and is safe to read
  random,            // draws from a generator: neither removed nor merged
  host_sync,         // the host reads the content of a tensor
};

// Returns true if a node's operands are read and its results written until the wait for them.
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

// The kind of a collective and the positions of its arguments; -1: it has no such argument.
struct CollectiveFacts {
  CollectiveKind kind;
  int group = -1;      // a string: the process group
  int ranks = -1;      // an integer: the size of the group
  int reduction = -1;  // a string: "sum", "max"
};

// The counts of a schema, whose first `tensors` arguments are tensors. All 0: unknown.
struct Signature {
  std::size_t tensors = 0, arguments = 0, results = 0;
};

// Kinds of ops that rules of several nodes or axes distinguish (compiler/verify/).
enum class OpKind : std::uint8_t {
  other,
  optimizer,  // updates lists of state: parameters, moments
  squares,    // sums the squares of each tensor of a list
  list,       // concatenates or stacks a list of tensors
  split,      // splits a tensor into consecutive pieces
  piece,      // takes one piece
  view,
  product,        // of two matrices, by LibTorch or a measured algorithm
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

  // The in-place form (in_place_name) takes the same arguments, returns the same bits, and
  // overwrites the first `overwritten` arguments: result i of the functional form is the i-th
  // tensor of these, with lists flattened. 0: there is no in-place form.
  int overwritten = 0;
  // A list: both forms return a further, new tensor for each of its tensors, behind those results.
  // -1: none.
  int makes_for = -1;
  // The argument whose memory the first result may reuse if this node is its last reader: the
  // kernel reads each element before it writes the element at its address. -1: none.
  int reuses = -1;
  // The argument, a tensor or a list, that the kernel accepts in bf16 where the others are f32. The
  // results have the bits of a cast argument. -1: none.
  int widens = -1;
  bool slow_to_repeat = false;  // expensive to recompute, although it multiplies no matrices
  // A product of a linear layer: selective checkpointing saves every second one.
  bool of_linear = false;
  bool of_experts = false;  // takes longer on the rank whose experts have more rows

  // Sharding (compiler/verify/). An in-place form is sharded by the row of its functional form.
  ShardingRule shard = nullptr;  // nullptr: only replicated operands are accepted
  OpKind kind = OpKind::other;
  int group = -1;            // the argument that names a group, for an op that is not a collective
  int gradients = -1;        // an optimizer's list of gradients; -1: it reads none
  bool keeps_parts = false;  // each part of a buffer keeps its position
  bool keeps_owner = false;  // result and operand have one parameter; implied by keeps_parts

  // Price. `flops` and `cost` are nullptr for an op that multiplies no matrices: it costs its
  // bytes.
  double (*flops)(const Graph&, const Node&) = nullptr;
  NodeCost (*cost)(const Priced&) = nullptr;             // cost of the arithmetic, if it has flops
  double (*bytes)(const Graph&, const Node&) = nullptr;  // nullptr: operands and results, once each
  std::int64_t launches = 1;                             // kernels, copies and fills on a GPU
  std::int64_t (*count_launches)(const Graph&, const Node&) = nullptr;  // overrides launches
  bool allocates = false;                                               // leaves its result unset

  // True for matrix products and attention, whose results are saved rather than recomputed.
  constexpr bool is_heavy() const { return flops != nullptr; }
};

constexpr bool is_collective(const Op& op) { return op.collective.has_value(); }

// Returns the rows of all ops, or of one family.
const std::vector<Op>& all_ops();
std::span<const Op> arithmetic_ops(), attention_ops(), collective_ops(), loss_ops(), norm_ops(),
    optimizer_ops(), product_ops(), row_ops(), view_ops();
// Returns the row of an op, or the defaults if it has none.
const Op& facts(std::string_view op);
// Returns the row of "aten.add.Tensor" for "aten.add_.Tensor", and facts(op) for an op that
// overwrites nothing.
const Op& functional_facts(std::string_view op);
std::string in_place_name(const Op& op);  // "aten.add_.Tensor" for the row of "aten.add.Tensor"

// Ops that several files create or match.
constexpr std::string_view kAllGather = "_c10d_functional.all_gather_into_tensor.default";
constexpr std::string_view kReduceScatter = "_c10d_functional.reduce_scatter_tensor.default";
constexpr std::string_view kAllReduce = "_c10d_functional.all_reduce.default";
constexpr std::string_view kWaitTensor = "_c10d_functional.wait_tensor.default";
constexpr std::string_view kOffload = "rondo.offload.default";
constexpr std::string_view kReload = "rondo.reload.default";
constexpr std::string_view kWaitTransfer = "rondo.wait_transfer.default";
constexpr std::string_view kToCopy = "aten._to_copy.default";

// A collective as described by its node, which must outlive it.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_gather;
  std::string_view group;
  std::int64_t ranks = 0;      // 0: the node has no such argument
  std::string_view reduction;  // empty: it reduces nothing
};
std::optional<Collective> collective_of(const Node& node);  // empty: not a collective
// Returns true if the node is an all-to-all in which every rank sends equally many rows to each
// rank.
bool sends_equal_pieces(const Node& node);
bool is_collective(const Node& node, CollectiveKind kind);

// The piece that aten.slice (self, dim, start, end, step) or aten.select (self, dim, index) takes.
struct Piece {
  std::int64_t dim, begin;
  explicit Piece(const Node& node) : dim(integer(node, 1)), begin(integer(node, 2)) {}
};
// Returns the dimension along which aten.split (self, size or sizes, dim) divides.
inline std::int64_t dim_of_split(const Node& node) { return integer(node, 2); }

// Returns the arguments that are nonempty lists of tensors, for the optimizer.
std::vector<const UseList*> lists_of(const Node& node);

// Returns true if the node is an aten._to_copy that neither moves its operand to another device nor
// pins it. The types then describe its effect completely.
bool converts_on_device(const Node& node);

// Returns, by node, the wait for the background work that it starts, or kNoNode.
IdMap<NodeIndex> waits_of_starts(const Graph& graph);
// Returns, by root of a storage (compiler/ir/storages.h), the last node at which the storage must
// exist: its last maker or reader, or the wait for a collective or transfer that reads it. kNoNode
// for an input that no node reads.
IdMap<NodeIndex> last_needed(const Graph& graph, const IdMap<ValueId>& roots);

// Returns the floating-point operations of a heavy node (a multiply-add is 2), and 0 for others.
// Attention counts the pairs that its mask allows, as if each row were one document.
double flops(const Graph& graph, const Node& node);

}  // namespace rondo::ir

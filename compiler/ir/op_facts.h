// What the passes know about ops, in one table. An op that is not in it is pure compute: no effect, no view,
// no in-place form, not heavy. Shapes and aliases of traced nodes are in the graph and are not repeated here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "compiler/ir/ir.h"
#include "ops/attention/attention_mask.h"

namespace rondo::ir {

// Why a node may not be dropped, merged or moved freely.
enum class Effect : std::uint8_t {
  none,
  collective_start,  // runs on in the background: operands are read and results written until their wait
  transfer_start,    // the same, between the device's memory and the host's
  wait,              // its result `views` the start's result, and is safe to read
  random,            // takes numbers from a generator: neither dropped nor merged
  host_sync,         // the host reads a tensor's content
};

// Whether a node's operands are read and its results written until the wait for them.
constexpr bool runs_in_background(Effect effect) {
  return effect == Effect::collective_start || effect == Effect::transfer_start;
}

enum class ViewKind : std::uint8_t {
  none,
  same_start,   // the result begins where the operand begins, so its type says everything about it
  moved_start,  // a slice, a piece, a diagonal
};

enum class CollectiveKind : std::uint8_t { all_gather, reduce_scatter, all_reduce, all_to_all, broadcast };
constexpr std::size_t kCollectiveKinds = 5;
std::string_view collective_name(CollectiveKind kind);  // "all-gather"

// What a collective does, and which of its arguments say with whom; -1: none does.
struct CollectiveFacts {
  CollectiveKind kind;
  int group = -1;      // a text: the process group
  int ranks = -1;      // an integer: how many are in it
  int reduction = -1;  // a text: "sum", "max"
};

// The counts of a schema; its first `tensors` arguments are tensors.
struct Signature {
  std::size_t tensors, arguments, results;
};

struct OpFacts {
  std::string_view name;
  Effect effect = Effect::none;
  ViewKind view = ViewKind::none;  // of argument 0
  bool heavy = false;              // worth saving rather than recomputing: matrix products, attention
  // Of a collective: all ranks of its group must come to it, in one order. With Effect::host_sync it is done
  // when the node returns.
  std::optional<CollectiveFacts> collective = {};
  // An in-place form that gives bit for bit the same, with the same arguments; empty if there is none. It
  // overwrites the first `overwritten` arguments; result i of the functional form is the i-th tensor of
  // these, lists flattened.
  std::string_view in_place = {};
  int overwritten = 0;
  // Index of the argument whose memory the first result may take in a plan when this node is its last reader:
  // the kernel reads each element of it before it writes the result's element in that place. -1: none.
  int reuses = -1;
  // Index of the argument, a tensor or a list, whose bf16 elements the kernel takes as they are where its
  // others are f32, and then gives the same bits as for what they were cast to. -1: none.
  int widens = -1;
  // Of an op that passes take apart by its schema.
  std::optional<Signature> signature = {};
};

constexpr bool is_collective(const OpFacts& op) { return op.collective.has_value(); }

const OpFacts& facts(std::string_view op);
std::span<const OpFacts> all_facts();  // for the check against the dispatcher's schemas

// Ops that more than one file makes or looks for.
constexpr std::string_view kAllGather = "_c10d_functional.all_gather_into_tensor.default";
constexpr std::string_view kReduceScatter = "_c10d_functional.reduce_scatter_tensor.default";
constexpr std::string_view kAllReduce = "_c10d_functional.all_reduce.default";
constexpr std::string_view kWaitTensor = "_c10d_functional.wait_tensor.default";
constexpr std::string_view kOffload = "rondo.offload.default";
constexpr std::string_view kReload = "rondo.reload.default";
constexpr std::string_view kWaitTransfer = "rondo.wait_transfer.default";
constexpr std::string_view kToCopy = "aten._to_copy.default";

// The product of a linear layer, of which selective activation checkpointing keeps every second one.
constexpr bool is_product_of_layer(std::string_view op) {
  return op == "aten.mm.default" || op == "rondo.float8_mm.default";
}

// A collective as its node says it. The texts live as long as the node.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_gather;
  std::string_view group;
  std::int64_t ranks = 0;      // 0: the node does not say
  std::string_view reduction;  // empty: it reduces nothing
};
std::optional<Collective> collective_of(const Node& node);  // empty: the node is none
// An all-to-all in which every rank sends each rank as many rows.
bool sends_equal_pieces(const Node& node);
bool is_collective(const Node& node, CollectiveKind kind);

// Whether the node is an aten._to_copy that neither moves its operand to another device nor pins it. What it
// does to dtype and strides is said by the types.
bool converts_on_device(const Node& node);

// Of rondo.attention and rondo.attention_backward; causal where the node says nothing.
AttentionMask mask_of(const Node& node);

// Floating-point operations of a heavy node (a multiply-add is 2), 0 for the others. Attention counts the
// pairs that its mask lets meet; documents are not known here, and each row is taken as one.
double flops(const Graph& graph, const Node& node);

}  // namespace rondo::ir

// The passes. Each says what it does, what it needs, what it guarantees, and its numerics: `exact` (bit for
// bit the same results) or `rounds`. All take a verified graph and leave one, in time linear in the graph.
// Their order, and why, is in compiler/passes/pipeline.cpp.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/ir/notes.h"
#include "compiler/ir/options.h"

namespace rondo::ir {

// Does: replaces views and copies that change nothing by what they view, and writes every view between
// contiguous tensors as one aten.view of the oldest of them. Needs: nothing. Guarantees: no detach or alias,
// no view of the type of what it views, no transposition that a later one undoes. Exact: strides, starts and
// alignment stay.
Notes canonicalize(Graph& graph, const CompileOptions& options);

// Does: lets a cast of a cast read what the first one read, where that one rounded nothing; a cast back to the
// dtype of the start goes. Needs: canonicalize, for casts with views between them. Guarantees: no cast reads a
// cast that widens and keeps sizes and strides, unless one of them is overwritten; copies that are returned or
// overwritten stay; what canonicalize guarantees. Exact, but for the signs and payloads of nans.
Notes fold_casts(Graph& graph, const CompileOptions& options);

// Does: replaces a node by an earlier one of the same phase with the same op, arguments and result types.
// Needs: canonicalize, to see equal views as equal. Guarantees: the first of equal nodes stays, with its
// module; random and collective ops, and tensors that are overwritten or become updates, are left alone.
// Exact.
Notes common_subexpressions(Graph& graph, const CompileOptions& options);

// Does: writes RMSNorm and its backward as one op each (ops/rms_norm/rms_norm.h). Needs: a graph without overwrites;
// common_subexpressions, so that the backward reads what the forward made. Guarantees: a norm whose inner values have
// other readers stays as it is; the statistics stay f32. Rounds: once instead of after every op, and the gradient of
// the weight is added up in f32.
Notes fuse_rms_norm(Graph& graph, const CompileOptions& options);

// Does: writes a rotary embedding, and its backward, as one op each (ops/rope/rope.h). Needs: a graph without
// overwrites. Guarantees: rotations whose inner values have other readers stay as they are. Rounds: a compiler may
// contract its products and sums.
Notes fuse_rope(Graph& graph, const CompileOptions& options);

// Does: writes silu(gate) * up and its backward as one op each (ops/swiglu/swiglu.h). Needs: a graph without
// overwrites; common_subexpressions. Guarantees: products whose inner values have other readers stay as they are.
// Rounds: once instead of after every op.
Notes fuse_swiglu(Graph& graph, const CompileOptions& options);

// Does: drops collectives whose awaited result reaches nothing that counts, with their waits and readers.
// Needs: nothing. Guarantees: each start keeps its wait, or both go; the others keep their order; the same
// decision on every rank, since it follows from the graph. Exact.
Notes remove_dead_collectives(Graph& graph, const CompileOptions& options);

// Does: drops nodes that nobody reads, and assertions that the device checks. Needs: nothing. Guarantees:
// inputs, writes, random ops, collectives and host reads stay. Exact.
Notes eliminate_dead_code(Graph& graph, const CompileOptions& options);

// Does: makes the head's product, the cross-entropy and their backward ops that take the rows of the batch in
// options.loss_chunks chunks, so that no logits of a whole batch are in memory. Needs: common_subexpressions and what
// it needs, to see each op once. Guarantees: collectives between ranks that share a vocabulary stay; a loss whose
// logits, or anything between, are read by something else is left whole, and a note says why. Rounds: sums have
// another order, and the gradient of the weight is rounded once.
Notes chunk_loss(Graph& graph, const CompileOptions& options);

// Does: computes forward values again in the backward instead of keeping them, as options.memory_policy says,
// and gathers parameters again as options.reshard_after_forward says. Needs: a graph without overwrites.
// Guarantees: a copy stands right before its first reader; random ops, reductions and what leaves a block are
// never copied. Exact.
Notes recompute(Graph& graph, const CompileOptions& options);

// Does: moves kept activations of the blocks to the host's memory until the backward needs them, under policy
// sac_and_offload. Needs: a graph without overwrites; to come after recompute, which decides what is kept.
// Guarantees: none of the last block; at most options.cpu_offload_budget_gib. Exact.
Notes offload(Graph& graph, const CompileOptions& options);

// Does: renames the group of parameter gathers by options.gather_group_suffix. Needs: to come before bucketing.
// Guarantees: other collectives keep their groups. Exact.
Notes separate_gather_group(Graph& graph, const CompileOptions& options);

// Does: gathers a parameter once in each phase, or once in all where its gathered copy is kept. Needs: a graph
// without overwrites; to come after recompute, which adds gathers. Guarantees: at most one gather of a
// parameter in a phase. Exact.
Notes deduplicate_unshard(Graph& graph, const CompileOptions& options);

// Does: makes one gather, and one reduce-scatter, of those of a bucket (Input::bucket). Needs: a graph without
// overwrites; each parameter gathered once in a phase. Guarantees: collectives of anything but parameters stay
// as they are. Exact: gathers always, reductions where the sum does not depend on an element's place in the
// buffer (on CPU: parallel/groups/ordered_gloo.h).
Notes transformer_block_bucketing(Graph& graph, const CompileOptions& options);

// Does: the same with buckets by size and overlap instead of Input::bucket, in place of
// transformer_block_bucketing. Needs, guarantees and numerics: as there.
Notes auto_bucketing(Graph& graph, const CompileOptions& options);

// Does: makes one sum over replicas of those of a bucket, or of what one reduce-scatter brought. Needs: a graph without
// overwrites; to come after the bucketing of reduce-scatters. Guarantees: sums of anything but gradients of parameters
// stay as they are. Exact, as the sums of the passes above.
Notes bucket_replica_sums(Graph& graph, const CompileOptions& options);

// Does: starts each gather of parameters one gather earlier, right after the wait for the one before it, and
// waits for each reduce-scatter of gradients one later, right before the next starts, and for the sums over
// replicas that follow it one later still. Needs: a graph without overwrites. Guarantees: at most two gathers and
// two reductions under way; collectives of a kind keep their order. Exact.
Notes overlap_fsdp(Graph& graph, const CompileOptions& options);

// Does: moves what a collective of activations does not need behind its start, as much as takes its time. Needs: a
// graph without overwrites; to come after the bucketing passes, which say what is of parameters. Guarantees: no node
// moves by more than two such collectives, or out of its phase. Exact.
Notes overlap_activations(Graph& graph, const CompileOptions& options);

// Does: moves nodes up that free more than they take, and nodes down to their first reader that take more than
// they free, where that lowers the peak of the memory plan. Needs: to follow whatever adds or drops nodes.
// Guarantees: the planned peak and the arena never rise; starts of collectives, waits, random ops, writes and
// host reads keep their order, and no node crosses one of them, but for waits, or the border of a phase; no
// matrix product or attention moves down below a wait. n log n. Exact.
Notes reorder_for_memory(Graph& graph, const CompileOptions& options);

// Does: gives an op its in-place form where the storage it overwrites is read by nobody afterwards: last
// uses, and states that the result updates. Needs: to be last, since a pass that moves or adds a read would
// have to look at storages. Guarantees: only ops whose in-place form is bit-equal, only at equal types and
// strides; batch inputs are never written. Exact.
Notes reinplace(Graph& graph, const CompileOptions& options);

// Does: marks the segments of the graph (compiler/ir/segments.h), and moves waits for what is under way at a cut up
// before it, since what one recording starts another cannot wait for. Needs: to be last, since marks are numbers of
// nodes. Guarantees: the rule segments_can_be_recorded holds; nothing but waits moves. Exact.
Notes cudagraph(Graph& graph, const CompileOptions& options);

}  // namespace rondo::ir

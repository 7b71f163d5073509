// The passes. Each takes a verified graph, leaves a verified graph, runs in time linear in the
// graph unless stated otherwise, and returns notes for the log. compiler/passes/pipeline.cpp lists
// what each pass does, needs and guarantees, in the order in which they run. A pass is implemented
// in the file of its name.
#pragma once

#include "compiler/analysis/notes.h"
#include "compiler/ir/ir.h"
#include "compiler/ir/options.h"

namespace rondo::ir {

Notes canonicalize(Graph& graph, const CompileOptions& options);
Notes fold_casts(Graph& graph, const CompileOptions& options);
Notes common_subexpressions(Graph& graph, const CompileOptions& options);
Notes fuse_add_rms_norm(Graph& graph, const CompileOptions& options);
Notes merge_linears(Graph& graph, const CompileOptions& options);
Notes fuse_addmm(Graph& graph, const CompileOptions& options);
Notes fuse_add_permute_tokens(Graph& graph, const CompileOptions& options);
Notes recompute(Graph& graph, const CompileOptions& options);
Notes offload(Graph& graph, const CompileOptions& options);
Notes deduplicate_unshard(Graph& graph, const CompileOptions& options);
Notes remove_dead_collectives(Graph& graph, const CompileOptions& options);
Notes eliminate_dead_code(Graph& graph, const CompileOptions& options);
Notes quantize_before_gather(Graph& graph, const CompileOptions& options);
Notes separate_gather_group(Graph& graph, const CompileOptions& options);
Notes transformer_block_bucketing(Graph& graph, const CompileOptions& options);
Notes auto_bucketing(Graph& graph, const CompileOptions& options);
Notes bucket_replica_sums(Graph& graph, const CompileOptions& options);
Notes overlap_fsdp(Graph& graph, const CompileOptions& options);
Notes overlap_activations(Graph& graph, const CompileOptions& options);
Notes async_tensor_parallel(Graph& graph, const CompileOptions& options);
Notes overlap_microbatches(Graph& graph, const CompileOptions& options);
Notes update_in_backward(Graph& graph, const CompileOptions& options);
Notes state_on_host(Graph& graph, const CompileOptions& options);
Notes reorder_for_memory(Graph& graph, const CompileOptions& options);
Notes choose_matmul_algorithms(Graph& graph, const CompileOptions& options);
Notes reinplace(Graph& graph, const CompileOptions& options);
Notes cudagraph(Graph& graph, const CompileOptions& options);

}  // namespace rondo::ir

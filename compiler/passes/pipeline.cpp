// The passes in the order in which they run, each with its properties and the reason for its place.
// docs/graph.md shows this list as a table.
#include "compiler/passes/pipeline.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <unordered_map>

#include "compiler/passes/passes.h"
#include "compiler/verify/verify.h"
#include "support/stopwatch.h"

namespace rondo::ir {
namespace {

// On the CPU, reductions add in rank order (parallel/groups/ordered_gloo.h); elsewhere the
// order varies.
constexpr std::string_view kUnorderedReductions =
    "for reductions where a sum depends on an element's position in the buffer (not on CPU)";

constexpr std::array kPasses = {
    PassInfo{
        .name = "canonicalize",
        .run = &canonicalize,
        .needs = kFunctional,
        .does = "removes views and copies without effect; replaces views between contiguous tensors by one "
                "`aten.view` of the oldest of them",
        .guarantees = "no detach or alias, no view of its own type, no transposition that a later one "
                      "undoes; strides, starts, alignment and types of sharding stay",
        .place = "first, so that later passes see one form of a view",
    },
    PassInfo{
        .name = "fold_casts",
        .run = &fold_casts,
        .needs = kFunctional,
        .does =
            "removes a cast back to the original dtype; casts of a widening cast, the optimizer, the sums "
            "of squares and sums of gradients read the source of the widening cast",
        .guarantees = "keeps narrowing casts, and copies that are returned or overwritten; "
                      "the guarantees of `canonicalize`",
        .place = "after `canonicalize`, which removes views between two casts; before "
                 "`common_subexpressions`, since casts of one value become equal",
        .numerics_detail = "for signs and payloads of NaNs",
    },
    PassInfo{
        .name = "common_subexpressions",
        .run = &common_subexpressions,
        .needs = kFunctional,
        .does = "computes nodes of a phase with equal op, arguments and result types once",
        .guarantees = "keeps the first of equal nodes with its module; keeps random ops, collectives, and "
                      "tensors that are overwritten or become updates",
        .place = "after `canonicalize`, which makes equal views equal; before passes that duplicate "
                 "nodes on purpose",
    },
    PassInfo{
        .name = "fuse_add_rms_norm",
        .run = &fuse_add_rms_norm,
        .needs = kFunctional,
        .does =
            "fuses a sum and its RMSNorm into `rondo.add_rms_norm`, and a norm's backward and the addition "
            "to its input gradient into `rondo.add_rms_norm_backward`",
        .guarantees = "a sum stays in its block, unless the policy saves all values",
        .place = "after `common_subexpressions`, so that the backward reads the values of its forward; "
                 "before `recompute`, so that memory policies see the remaining values",
    },
    PassInfo{
        .name = "merge_linears",
        .run = &merge_linears,
        .numerics = Numerics::rounds,
        .needs = kFunctional,
        .does = "merges linear layers of one input, such as query, key and value, or gate and up, into one "
                "product, in the forward and in both products of the backward",
        .guarantees = "weights stay separate; keeps layers that the cost model expects to be slower merged, "
                      "and the log says so",
        .place = "after the fusions, whose ops read slices of a product; before `recompute`, which "
                 "recomputes the weight of the product",
        .numerics_detail = "a product may add in another order, and input gradients are added in fp32",
    },
    PassInfo{
        .name = "fuse_addmm",
        .run = &fuse_addmm,
        .numerics = Numerics::rounds,
        .needs = kFunctional,
        .does = "fuses a product and its sum with a tensor that has no other reader, such as gradients of "
                "one input, into `aten.addmm`",
        .guarantees = "the product keeps its place; `reinplace` then adds in the memory of the other "
                      "operand",
        .place = "after `merge_linears`, which removes sums; before `recompute`, like the fusions",
        .numerics_detail = "once, not after product and sum",
    },
    PassInfo{
        .name = "fuse_add_permute_tokens",
        .run = &fuse_add_permute_tokens,
        .needs = kFunctional,
        .does = "adds both input gradients of experts in `rondo.unpermute_tokens` or `rondo.permute_tokens`, "
                "which gathers their rows",
        .guarantees = "a sum with another reader stays, and so does one whose rows are read several times",
        .place =
            "after `merge_linears` and `fuse_addmm`, which remove sums of gradients; before `recompute`, "
            "like the fusions",
    },
    PassInfo{
        .name = "recompute",
        .run = &recompute,
        .needs = kFunctional,
        .breaks = kGatheredOnce,
        .does = "recomputes forward values in the backward by `compile.memory_policy`, and "
                "gathers parameters again by `parallelism.fsdp_reshard_after_forward`",
        .guarantees = "a copy comes right before its first reader; never copies random ops, reductions and "
                      "values that leave a block",
        .place = "after `common_subexpressions`, so that no value is saved twice; before passes on "
                 "collectives, since it adds some",
    },
    PassInfo{
        .name = "offload",
        .run = &offload,
        .needs = kFunctional,
        .does = "offloads saved activations to host memory until the backward needs them, under "
                "`compile.memory_policy = \"sac_and_offload\"`",
        .guarantees = "no value of the last block; at most `compile.cpu_offload_budget_gb`",
        .place = "after `recompute`, which decides what is saved",
    },
    PassInfo{
        .name = "deduplicate_unshard",
        .run = &deduplicate_unshard,
        .needs = kFunctional,
        .gives = kGatheredOnce,
        .does = "gathers a parameter once in a phase, or once in total where its gathered copy is kept",
        .guarantees = "at most one gather of a parameter in a phase",
        .place = "after `recompute`, which gathers again for recomputed nodes",
    },
    PassInfo{
        .name = "remove_dead_collectives",
        .run = &remove_dead_collectives,
        .does = "removes collectives whose awaited result is never used, with their waits and "
                "readers",
        .guarantees = "removes start and wait together; the others keep their order; the same decision on "
                      "all ranks, which compare their sequences before the first step",
        .place = "before `eliminate_dead_code`, which removes their operands",
    },
    PassInfo{
        .name = "eliminate_dead_code",
        .run = &eliminate_dead_code,
        .does = "removes nodes without readers, and assertions that the device checks",
        .guarantees = "keeps inputs, writes, random ops, collectives and host reads",
        .place = "after the passes that leave nodes without readers",
    },
    PassInfo{
        .name = "quantize_before_gather",
        .run = &quantize_before_gather,
        .needs = kFunctional,
        .does =
            "quantizes matrices to float8 before they are gathered, so that ranks exchange float8 numbers "
            "and scales: activations, and parameters under "
            "`quantize.linear.float8.enable_fsdp_float8_all_gather`",
        .guarantees = "scales of the original; one maximum over ranks for all parameters of a group; keeps a "
                      "gather that is also read in another precision, or by rows and by columns",
        .place =
            "after the passes that remove readers of a gather; before bucketing, which merges gathers of "
            "float8",
    },
    PassInfo{
        .name = "separate_gather_group",
        .run = &separate_gather_group,
        .of_bodies = true,
        .needs = kFunctional,
        .does = "moves gathers of parameters to a separate group, under `compile.enable_fsdp_ag_rs_overlap`",
        .guarantees = "other collectives keep their groups",
        .place = "before bucketing, after which a gather has several parameters",
    },
    PassInfo{
        .name = "transformer_block_bucketing",
        .run = &transformer_block_bucketing,
        .of_bodies = true,
        .needs = kFunctional | kGatheredOnce,
        .does = "merges gathers and reduce-scatters of the parameters of a bucket into one each; a bucket is "
                "a block, all before the first block, all after the last, the norms that tensor parallelism "
                "does not split, or `compile.fsdp_buckets`",
        .guarantees = "packed in the order of the parameters; keeps all other collectives",
        .place = "after the passes that remove gathers",
        .numerics_detail = kUnorderedReductions,
    },
    PassInfo{
        .name = "auto_bucketing",
        .run = &auto_bucketing,
        .in_default = false,
        .of_bodies = true,
        .needs = kFunctional | kGatheredOnce,
        .replaces = "transformer_block_bucketing",
        .does = "buckets by size and overlap instead of by block",
        .guarantees = "like `transformer_block_bucketing`",
        .place = "in place of `transformer_block_bucketing`",
        .numerics_detail = kUnorderedReductions,
    },
    PassInfo{
        .name = "bucket_replica_sums",
        .run = &bucket_replica_sums,
        .of_bodies = true,
        .needs = kFunctional,
        .does = "merges sums over replicas of the gradients of a bucket into one: the result of a "
                "reduce-scatter before it is split, or packed gradients without one (DDP)",
        .guarantees = "keeps sums of other tensors",
        .place = "after the bucketing of reduce-scatters",
        .numerics_detail = kUnorderedReductions,
    },
    PassInfo{
        .name = "overlap_fsdp",
        .run = &overlap_fsdp,
        .of_bodies = true,
        .needs = kFunctional | kPhasesInTurn,
        .does = "starts each gather of parameters one gather earlier; delays the wait for each "
                "reduce-scatter of gradients by one, and for the following sum over replicas by one more",
        .guarantees = "at most two gathers and two reductions in flight; collectives of a kind keep their "
                      "order",
        .place = "after bucketing, so that one bucket is in flight while the previous one is used",
    },
    PassInfo{
        .name = "overlap_activations",
        .run = &overlap_activations,
        .of_bodies = true,
        .needs = kFunctional | kPhasesInTurn,
        .does = "moves nodes that a collective of activations does not need after its start, for as long as "
                "it takes: weight gradients while ranks that share a layer exchange activations",
        .guarantees = "no node moves past more than two such collectives, or out of its phase",
        .place = "after the bucketing passes, which mark collectives of parameters",
    },
    PassInfo{
        .name = "async_tensor_parallel",
        .run = &async_tensor_parallel,
        .of_bodies = true,
        .needs = kFunctional | kPhasesInTurn,
        .does = "cuts gathers of activations by rows and reduce-scatters by columns into pieces that overlap "
                "the pieces of their products, under `parallelism.enable_async_tensor_parallel`",
        .guarantees = "the sums over ranks keep their order; a collective stays whole if the cost model "
                      "expects that its pieces take longer, and the log says so",
        .place = "after `overlap_activations`, so that only what no independent node hides is cut; before "
                 "`reorder_for_memory`",
        .numerics_detail = "for products and reductions where the order of a sum depends on the number of "
                           "rows or columns (not on CPU in fp32 and bf16)",
    },
    PassInfo{
        .name = "overlap_microbatches",
        .run = &overlap_microbatches,
        .of_bodies = true,
        .needs = kFunctional | kPhasesInTurn,
        .breaks = kPhasesInTurn,
        .does = "interleaves a forward and a backward of different microbatches, so that one computes while "
                "the other communicates",
        .guarantees = "each keeps its own order; keeps a graph whose backward reads its forward, and "
                      "one that draws random numbers",
        .place = "after the passes that order a forward or a backward alone",
    },
    PassInfo{
        .name = "update_in_backward",
        .run = &update_in_backward,
        .of_bodies = true,
        .needs = kFunctional,
        .breaks = kPhasesInTurn,
        .does = "moves updates of parameters and the squares of their gradients up into the backward, under "
                "`optimizer.early_step_in_backward`, so that a gradient is freed once it is reduced",
        .guarantees = "an update comes after the last reader of its old parameters, so `reinplace` can "
                      "overwrite them; collectives keep their places",
        .place = "after the passes that order a backward alone, and after the waits that its gradients need; "
                 "before `reorder_for_memory`, which sees the shorter lifetimes",
    },
    PassInfo{
        .name = "state_on_host",
        .run = &state_on_host,
        .of_bodies = true,
        .needs = kFunctional,
        .breaks = kPhasesInTurn,
        .does = "keeps parameters and moments in host memory, under `training.enable_cpu_offload`: reloads "
                "those of a bucket before they are read, and offloads what an update makes",
        .guarantees = "the reloads of a bucket start one bucket early; its offloads end one update later; "
                      "tensors below 4 KiB stay on the device",
        .place = "after the passes that move readers of parameters; before `reorder_for_memory`, which sees "
                 "the shorter lifetimes",
    },
    PassInfo{
        .name = "reorder_for_memory",
        .run = &reorder_for_memory,
        .of_bodies = true,
        .needs = kFunctional,
        .does = "moves up nodes that free more than they take, and moves others down to their first reader, "
                "where that lowers the planned peak; n log n",
        .guarantees = "planned peak and arena never grow; starts, waits, random ops, writes and host reads "
                      "keep their order, and only waits may be passed; products never move after a wait",
        .place = "after every pass that adds or removes nodes, so that it sees the final lifetimes; "
                 "before `reinplace`, since overwritten operands restrict the order of their readers",
    },
    PassInfo{
        .name = "choose_matmul_algorithms",
        .run = &choose_matmul_algorithms,
        .numerics = Numerics::rounds,
        .of_bodies = true,
        .needs = kFunctional,
        .does = "assigns products the fastest algorithms of cuBLASLt as measured by `rondo tune` "
                "(`compile.matmul_algorithms`)",
        .guarantees = "a product without a faster algorithm in the table keeps LibTorch's",
        .place = "after every pass that searches for products; before `reinplace`, which adds them to a sum "
                 "in its "
                 "place",
        .numerics_detail = "a product may add in another order",
    },
    PassInfo{
        .name = "reinplace",
        .run = &reinplace,
        .of_bodies = true,
        .needs = kFunctional,
        .breaks = kFunctional,
        .does = "writes a result over an operand without later readers; updates state in place",
        .guarantees = "only bit-equal forms with equal types and strides; never writes the batch",
        .place = "after every pass that adds, moves or removes a reader: later passes must look at storages",
    },
    PassInfo{
        .name = "cudagraph",
        .run = &cudagraph,
        .in_default = false,
        .of_bodies = true,
        .only_on = TargetDevice::cuda,
        .does = "marks the segments that the device records once and replays without the host; moves waits "
                "for work in progress before each cut",
        .guarantees = "a segment has no host read, and no wait whose start is outside",
        .place = "last, since it marks nodes by their index",
    },
};

std::map<std::string, int> count_ops(const Graph& graph) {
  std::unordered_map<std::string_view, int> counts;
  for (const Node& node : graph.nodes) ++counts[node.op];
  return {counts.begin(), counts.end()};
}

std::string properties_text(Properties properties) {
  std::string text;
  for (Properties bit = 1; bit != 0 && bit <= properties; bit <<= 1)
    if (properties & bit) (text += text.empty() ? "" : "; ") += property_name(bit);
  return text.empty() ? "-" : text;
}

std::string numerics_text(const PassInfo& pass) {
  if (pass.numerics_detail.empty()) return std::string(name_of(pass.numerics));
  return fmt::format("{}{}",
                     pass.numerics == Numerics::exact ? "exact, but " : "rounds: ", pass.numerics_detail);
}

}  // namespace

std::span<const PassInfo> all_passes() { return kPasses; }

std::string passes_as_markdown() {
  std::string text = "| pass | does | needs | guarantees | place | numerics |\n|---|---|---|---|---|---|\n";
  for (const PassInfo& pass : kPasses)
    text += fmt::format("| `{}`{} | {} | {} | {} | {} | {} |\n", pass.name,
                        pass.in_default ? "" : ", not in the default list", pass.does,
                        properties_text(pass.needs), pass.guarantees, pass.place, numerics_text(pass));
  return text;
}

PipelineReport run_pipeline(Graph& graph, const CompileOptions& options, const DumpCallback& dump,
                            PipelineHalf half, VerifyAfter when) {
  Selection selection = select_passes(all_passes(), options);
  PipelineReport report{.passes = {}, .notes = std::move(selection.notes)};
  std::map<std::string, int> before = count_ops(graph);
  for (const PassInfo* pass : selection.passes) {
    if (half != PipelineHalf::both && pass->of_bodies != (half == PipelineHalf::after_cut)) continue;
    PassReport row{.name = pass->name, .nodes_before = graph.nodes.size(), .op_difference = {}, .notes = {}};
    const Stopwatch start;
    row.notes = pass->run(graph, options);
    row.ms = start.milliseconds();
    row.nodes_after = graph.nodes.size();
    if (dump) dump(pass->name, graph);
    if (!row.notes.unchanged) {
      const Stopwatch verify_start;
      if (when == VerifyAfter::each_change) verify(graph, pass->name);
      row.verify_ms = verify_start.milliseconds();
      std::map<std::string, int> after = count_ops(graph);
      std::map<std::string, int> difference = after;
      for (const auto& [op, count] : before) difference[op] -= count;
      for (const auto& [op, change] : difference)
        if (change != 0) row.op_difference.emplace_back(op, change);
      before = std::move(after);
    }
    report.passes.push_back(std::move(row));
  }
  if (when == VerifyAfter::last_pass) verify(graph, "all passes");
  return report;
}

}  // namespace rondo::ir

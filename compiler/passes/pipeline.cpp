// The passes in the order in which they run, each with its facts and the reason for its place. docs/graph.md
// shows this list as a table.
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

// Reductions add in the order of the ranks on the CPU (parallel/groups/ordered_gloo.h) and nowhere else.
constexpr std::string_view kUnorderedReductions =
    "for reductions where a sum depends on an element's place in the buffer (not on CPU)";

constexpr std::array kPasses = {
    PassInfo{
        .name = "canonicalize",
        .run = &canonicalize,
        .needs = kFunctional,
        .does = "drops views and copies that change nothing; writes every view between contiguous tensors "
                "as one `aten.view` of the oldest of them",
        .guarantees = "no detach or alias, no view of its own type, no transposition that a later one "
                      "undoes; strides, starts, alignment and types of sharding stay",
        .place = "first, so that every later pass meets one form of a view",
    },
    PassInfo{
        .name = "fold_casts",
        .run = &fold_casts,
        .needs = kFunctional,
        .does =
            "drops a cast back to the dtype of the start, and lets a cast of a widening cast, the optimizer "
            "and the sums of squares read what that one read",
        .guarantees = "a cast that narrows is never left out; copies that are returned or overwritten stay; "
                      "what `canonicalize` guarantees",
        .place = "after `canonicalize`, which drops views between two casts; before "
                 "`common_subexpressions`, since casts of one value become equal",
        .numerics_detail = "for the signs and payloads of NaNs",
    },
    PassInfo{
        .name = "common_subexpressions",
        .run = &common_subexpressions,
        .needs = kFunctional,
        .does = "computes equal nodes of a phase once: those with the same op, arguments and result types",
        .guarantees = "the first of equal nodes stays, with its module; random ops, collectives and tensors "
                      "that are overwritten or become updates are left alone",
        .place = "after `canonicalize`, which makes equal views equal; before anything that duplicates "
                 "nodes on purpose",
    },
    PassInfo{
        .name = "fuse_add_rms_norm",
        .run = &fuse_add_rms_norm,
        .needs = kFunctional,
        .does =
            "a sum and its RMSNorm become `rondo.add_rms_norm`; what is added to the gradient of a norm's "
            "input, `rondo.add_rms_norm_backward`",
        .guarantees = "a sum stays in its block, unless everything is kept for the backward",
        .place = "after `common_subexpressions`, so that the backward reads the very values of its forward; "
                 "before `recompute`, so that memory policies see what is left to keep",
    },
    PassInfo{
        .name = "merge_linears",
        .run = &merge_linears,
        .numerics = Numerics::rounds,
        .needs = kFunctional,
        .does = "linear layers of one input, such as those of queries, keys and values, or of gate and up, "
                "become one product, in the forward and in both products of the backward",
        .guarantees = "weights stay apart; what the cost model takes for slower stays as it is, and the log "
                      "says so",
        .place = "after the fusions, whose ops read slices of a product; before `recompute`, which makes "
                 "the weight of the product again",
        .numerics_detail = "a product may add in another order, and gradients of an input are added in fp32",
    },
    PassInfo{
        .name = "fuse_addmm",
        .run = &fuse_addmm,
        .numerics = Numerics::rounds,
        .needs = kFunctional,
        .does = "a product that is added to what nobody else reads, such as gradients of one input, becomes "
                "`aten.addmm`",
        .guarantees = "the product stays in its place; `reinplace` then adds in the memory of what it is "
                      "added to",
        .place = "after `merge_linears`, which needs no sums; before `recompute`, as the fusions",
        .numerics_detail = "once, not after product and sum",
    },
    PassInfo{
        .name = "recompute",
        .run = &recompute,
        .needs = kFunctional,
        .breaks = kGatheredOnce,
        .does = "computes forward values again in the backward, as `compile.memory_policy` says, and "
                "gathers parameters again, as `parallelism.fsdp_reshard_after_forward` says",
        .guarantees = "a copy stands right before its first reader; random ops, reductions and what leaves "
                      "a block are never copied",
        .place = "after `common_subexpressions`, so that nothing is kept twice; before what treats "
                 "collectives, since it adds some",
    },
    PassInfo{
        .name = "offload",
        .run = &offload,
        .needs = kFunctional,
        .does = "moves kept activations to the host's memory until the backward needs them, under "
                "`compile.memory_policy = \"sac_and_offload\"`",
        .guarantees = "none of the last block; at most `compile.cpu_offload_budget_gb`",
        .place = "after `recompute`, which decides what is kept",
    },
    PassInfo{
        .name = "deduplicate_unshard",
        .run = &deduplicate_unshard,
        .needs = kFunctional,
        .gives = kGatheredOnce,
        .does = "gathers a parameter once in a phase, or once in all where its gathered copy is kept",
        .guarantees = "at most one gather of a parameter in a phase",
        .place = "after `recompute`, which gathers again for what it computes again",
    },
    PassInfo{
        .name = "remove_dead_collectives",
        .run = &remove_dead_collectives,
        .does = "drops collectives whose awaited result reaches nothing that counts, with their waits and "
                "readers",
        .guarantees = "start and wait go together; the others keep their order; the same decision on all "
                      "ranks, which compare their sequences before the first step",
        .place = "before `eliminate_dead_code`, which drops what fed them",
    },
    PassInfo{
        .name = "eliminate_dead_code",
        .run = &eliminate_dead_code,
        .does = "drops what nobody reads, and assertions that the device checks",
        .guarantees = "inputs, writes, random ops, collectives and host reads stay",
        .place = "after the passes that leave nodes without readers",
    },
    PassInfo{
        .name = "separate_gather_group",
        .run = &separate_gather_group,
        .of_bodies = true,
        .needs = kFunctional,
        .does = "gives gathers of parameters a group of their own, under `compile.enable_fsdp_ag_rs_overlap`",
        .guarantees = "other collectives keep their groups",
        .place = "before gathers are bucketed, and so are of more than one parameter",
    },
    PassInfo{
        .name = "transformer_block_bucketing",
        .run = &transformer_block_bucketing,
        .of_bodies = true,
        .needs = kFunctional | kGatheredOnce,
        .does = "one gather and one reduce-scatter for the parameters of a bucket: a block, what stands "
                "before the first, what stands behind the last, or `compile.fsdp_buckets`",
        .guarantees = "packed in the order of the parameters; collectives of anything else stay",
        .place = "on the gathers that are left",
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
        .guarantees = "as `transformer_block_bucketing`",
        .place = "instead of `transformer_block_bucketing`",
        .numerics_detail = kUnorderedReductions,
    },
    PassInfo{
        .name = "bucket_replica_sums",
        .run = &bucket_replica_sums,
        .of_bodies = true,
        .needs = kFunctional,
        .does = "one sum over replicas for the gradients of a bucket: of what a reduce-scatter brought, "
                "before it is taken apart; packed where nothing is scattered (DDP)",
        .guarantees = "sums of anything but gradients stay",
        .place = "on what the buckets of the reduce-scatters became",
        .numerics_detail = kUnorderedReductions,
    },
    PassInfo{
        .name = "overlap_fsdp",
        .run = &overlap_fsdp,
        .of_bodies = true,
        .needs = kFunctional | kPhasesInTurn,
        .does = "starts each gather of parameters one gather earlier; waits for each reduce-scatter of "
                "gradients one later, and for the sums over replicas that follow it one later still",
        .guarantees = "at most two gathers and two reductions under way; collectives of a kind keep their "
                      "order",
        .place = "on the buckets, so that a whole one is under way while the one before it is computed with",
    },
    PassInfo{
        .name = "overlap_activations",
        .run = &overlap_activations,
        .of_bodies = true,
        .needs = kFunctional | kPhasesInTurn,
        .does = "puts what a collective of activations does not need behind its start, as much as takes its "
                "time: gradients of weights while ranks that share a layer exchange activations",
        .guarantees = "no node moves by more than two such collectives, or out of its phase",
        .place = "after the bucketing passes, which say what is of parameters",
    },
    PassInfo{
        .name = "overlap_microbatches",
        .run = &overlap_microbatches,
        .of_bodies = true,
        .needs = kFunctional | kPhasesInTurn,
        .breaks = kPhasesInTurn,
        .does =
            "gives a forward and a backward of different microbatches one order, in which one computes while "
            "the other communicates",
        .guarantees =
            "each keeps its own order; a graph whose backward reads its forward stays as it is, and "
            "one that draws random numbers",
        .place = "after the passes that order a forward or a backward alone",
    },
    PassInfo{
        .name = "reorder_for_memory",
        .run = &reorder_for_memory,
        .of_bodies = true,
        .needs = kFunctional,
        .does = "moves up what frees more than it takes, and down to its first reader what takes more than "
                "it frees, where that lowers the planned peak; n log n",
        .guarantees = "planned peak and arena never rise; starts, waits, random ops, writes and host reads "
                      "keep their order, and only waits may be passed; products never move below a wait",
        .place = "after every pass that adds or drops nodes, so that it sees the lifetimes that will be; "
                 "before `reinplace`, since an overwritten operand ties its readers down",
    },
    PassInfo{
        .name = "choose_matmul_algorithms",
        .run = &choose_matmul_algorithms,
        .numerics = Numerics::rounds,
        .of_bodies = true,
        .needs = kFunctional,
        .does = "gives products the algorithms of cuBLASLt that `rondo tune` measured as the fastest "
                "(`compile.matmul_algorithms`)",
        .guarantees = "a product that the table lacks, or for which nothing was faster, stays LibTorch's",
        .place =
            "after every pass that looks for products; before `reinplace`, which adds them to a sum in its "
            "place",
        .numerics_detail = "a product may add in another order",
    },
    PassInfo{
        .name = "reinplace",
        .run = &reinplace,
        .of_bodies = true,
        .needs = kFunctional,
        .breaks = kFunctional,
        .does = "writes a result over an operand nobody reads again; updates state in place",
        .guarantees = "only bit-equal forms at equal types and strides; the batch is never written",
        .place = "after every pass that adds, moves or drops a reader: what follows has to look at storages",
    },
    PassInfo{
        .name = "cudagraph",
        .run = &cudagraph,
        .in_default = false,
        .of_bodies = true,
        .only_on = TargetDevice::cuda,
        .does = "marks the segments that the device records once and replays without the host; waits for "
                "what is under way at a cut before it",
        .guarantees = "a segment holds no host read, and no wait whose start lies outside",
        .place = "last: it marks nodes by their numbers",
    },
};

std::map<std::string, int> count_ops(const Graph& graph) {
  std::unordered_map<std::string_view, int> counts;
  for (const Node& node : graph.nodes) ++counts[node.op];
  return {counts.begin(), counts.end()};
}

std::string properties_text(Properties properties) {
  std::string text;
  for (Properties one = 1; one != 0 && one <= properties; one <<= 1)
    if (properties & one) (text += text.empty() ? "" : "; ") += property_name(one);
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
                            PipelineHalf half) {
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
    const Stopwatch verify_start;
    if (!row.notes.unchanged) verify(graph, pass->name);
    row.verify_ms = verify_start.milliseconds();
    std::map<std::string, int> after = count_ops(graph);
    std::map<std::string, int> difference = after;
    for (const auto& [op, count] : before) difference[op] -= count;
    for (const auto& [op, change] : difference)
      if (change != 0) row.op_difference.emplace_back(op, change);
    before = std::move(after);
    report.passes.push_back(std::move(row));
  }
  return report;
}

}  // namespace rondo::ir

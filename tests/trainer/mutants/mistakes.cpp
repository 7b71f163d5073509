// Lists the mistakes, one row each: place, name, and a change from ways_to_err.h. Modules are those
// of the first layers, which the others repeat.
#include "tests/trainer/mutants/mistakes.h"

#include <utility>

#include "tests/trainer/mutants/ways_to_err.h"

namespace rondo {
namespace {

using namespace mistake;

constexpr std::string_view kStep = "train_step";
const std::string kWq = "layers.0.attention.wq", kWqWeight = kWq + ".weight";
const std::string kFeed = "layers.0.feed_forward", kAttention = "layers.0.attention";
const std::string kMoe = "layers.1.moe", kExpertsW1 = kMoe + ".experts.w1";

std::vector<Mistake> of_tensor_parallelism() {
  const auto row = [](const char* name, Make make) {
    return Mistake{"llama tp", kStep, name, std::move(make)};
  };
  const auto late = [](const char* name, Make make) {
    return Mistake{"llama tp", kStep, name, std::move(make), true};
  };
  return {
      row("embedding: rows of other ranks are not added", left_out({kScatter, "tok_embeddings", F})),
      row("embedding: rows are added over dp", over({kScatter, "tok_embeddings", F}, "dp")),
      row("embedding: ids of other ranks find rows", skipped({"aten.masked_fill", "tok_embeddings", F})),
      row("embedding: ids of other ranks have gradients", skipped({"aten.masked_fill", "tok_embeddings", B})),
      row("embedding: ids are those of the whole table", skipped({"rondo.local_ids", "tok_embeddings", F})),
      row("attention: tokens are not gathered", left_out({kGather, kAttention, F})),
      row("attention: outputs are not added", left_out({kScatter, kAttention, F})),
      row("attention: outputs are added over dp", over({kScatter, kAttention, F}, "dp")),
      row("attention: outputs are added twice", again({kScatter, kAttention, F}, "tp")),
      row("attention: gradients of tokens are not added", left_out({kScatter, kAttention, B})),
      row("attention: gradients of outputs are not gathered", left_out({kGather, kAttention, B})),
      row("attention: the residual is added by each rank", add_residual_before_the_sum),
      row("attention: a branch has no gradient", skipped({"aten.add", "layers.0.attention.wk", B})),
      row("attention: positions are off by one on a rank", turn_on_one_rank),
      row("attention: positions are off by one on all ranks", input_turned("rope.cos", 0)),
      row("feed-forward: gradients of tokens are added over dp", over({kScatter, kFeed, B}, "dp")),
      row("feed-forward: a sum comes before the activation", sum_before_activation),
      row("norm: its gradient is not added", left_out({kScatter, kAttention + "_norm.weight", B})),
      row("norm: its gradient is added twice", again({kScatter, kAttention + "_norm.weight", B}, "dp_tp")),
      row("norm: its gradient counts each rank of tp", scaled({kScatter, kAttention + "_norm.weight", B}, 2)),
      row("wq: its gradient is added over tp", over({kScatter, kWqWeight, B}, "tp")),
      row("wq: its gradient is not added", left_out({kScatter, kWqWeight, B})),
      row("wq: its gradient is added twice", again({kScatter, kWqWeight, B}, "dp")),
      row("wq: its gradient is the largest", maximum({kScatter, kWqWeight, B})),
      row("wq: its gradient is divided by the ranks of dp", scaled({"aten.mm", kWq, B, 1}, 0.5)),
      row("output: its gradient is added over tp, too", again({kScatter, "output.weight", B}, "tp")),
      row("output: gradients of tokens are not added", left_out({kScatter, "output", B})),
      row("all gradients are divided by the ranks of dp", all_gradients_scaled(0.5, true)),
      row("all gradients are divided once more behind the norm", all_gradients_scaled(0.5, false)),
      row("loss: divided by the rank's own tokens", left_out({kReduce, "loss", F, 2})),
      row("loss: divided by tokens that each rank of tp has counted", over({kReduce, "loss", F, 2}, "dp_tp")),
      row("loss: counts each rank of tp", skipped({"aten.div", "gradient_norm", U})),
      row("loss: is divided by the ranks of tp twice", scaled({"aten.div", "gradient_norm", U}, 0.5)),
      row("loss: the largest logit is that of a part", left_out({kReduce, "loss", F, 0})),
      row("loss: exponentials are those of a part", left_out({kReduce, "loss", F, 1})),
      row("loss: exponentials are added over dp", over({kReduce, "loss", F, 1}, "dp")),
      row("loss: padding of the vocabulary counts", skipped({"aten.masked_fill", "loss", F, 0})),
      row("loss: labels of other ranks count", skipped({"aten.masked_fill", "loss", F, 1})),
      row("loss: labels are shifted by one", input_turned("labels", 1)),
      row("gradient norm: a gradient counts for another one", norm_takes("norm.weight", "output.weight")),
      row("gradient norm: is each rank's own", left_out({kReduce, "gradient_norm", U})),
      row("gradient norm: is that of dp", over({kReduce, "gradient_norm", U}, "dp")),
      row("clipping: twice", number(kClip, "aten.mul.Tensor")),
      row("clipping: not at all", number(kClip, "aten.div.Tensor")),
      row("AdamW: each step counts twice", number(kCount, "aten.mul.Scalar", 2)),
      row("AdamW: the rate is multiplied by the ranks", number(kRate, "aten.mul.Scalar", 4)),
      row("AdamW: w1 and w3 take each other's gradient",
          exchanged(kGradients, "layers.0.feed_forward.w1.weight", "layers.0.feed_forward.w3.weight")),
      row("AdamW: w1 and w3 take each other's moment",
          exchanged(1, "layers.0.feed_forward.w1.weight", "layers.0.feed_forward.w3.weight")),
      row("w1 and w3 are gathered for each other",
          gathered_for_each_other(kFeed + ".w1.weight", kFeed + ".w3.weight", F)),
      row("w1 and w3 are gathered for each other in the backward",
          gathered_for_each_other(kFeed + ".w1.weight", kFeed + ".w3.weight", B)),
      late("bucket: two gathered parameters change places", pieces_exchanged(F, 2)),
      late("bucket: two gathered parameters change places in the backward", pieces_exchanged(B, 2)),
      late("bucket: two reduced gradients change places", pieces_exchanged(B, 1)),
      late("bucket: two gradients are put in each other's place", put_together_otherwise),
  };
}

std::vector<Mistake> of_context_parallelism() {
  constexpr std::string_view kExchange = "_c10d_functional.all_to_all_single";
  const auto row = [](const char* name, Make make) {
    return Mistake{"context", kStep, name, std::move(make)};
  };
  const auto of_heads = [](const char* name, Make make) {
    return Mistake{"heads", kStep, name, std::move(make)};
  };
  return {
      row("context: keys are not gathered", left_out({kGather, kAttention, F})),
      row("context: keys are gathered over dp, too", over({kGather, kAttention, F}, "dp_cp")),
      row("context: parts of keys change places", parts_exchanged({"aten.cat", kAttention, F, 0})),
      row("context: gradients of keys are not added", left_out({kScatter, kAttention, B})),
      row("context: gradients of keys are added twice", again({kScatter, kAttention, B}, "cp")),
      row("context: gradients of keys are the largest", maximum({kScatter, kAttention, B})),
      row("context: queries stand one place off", input_turned("query_positions", 1)),
      row("context: rotations are one place off", input_turned("positions", 1)),
      row("context: wq's gradient is added over cp alone", over({kScatter, kWqWeight, B}, "cp")),
      row("context: the loss is divided by the tokens of a row's ranks", over({kReduce, "loss", F, 0}, "cp")),
      row("context: the loss is divided by the rank's own tokens", left_out({kReduce, "loss", F, 0})),
      of_heads("heads: queries are not exchanged", left_out({kExchange, kAttention, F, 0})),
      of_heads("heads: attention takes keys and values for each other",
               [=](Patient& p) {
                 auto& args = p.graph.nodes[p.find({"rondo.attention", kAttention, F})].args;
                 std::swap(args[1], args[2]);
               }),
      of_heads("heads: results are not exchanged back", left_out({kExchange, kAttention, F, 3})),
      of_heads("heads: a gradient is not exchanged", left_out({kExchange, kAttention, B, 1})),
  };
}

std::vector<Mistake> of_replicas() {
  const auto row = [](std::string_view function, const char* name, Make make) {
    return Mistake{"llama hsdp", function, name, std::move(make)};
  };
  constexpr std::string_view kAccumulate = "accumulate", kLast = "last";
  return {
      row(kLast, "replicas: wq's gradient is not added", left_out({kReduce, kWqWeight, B})),
      row(kLast, "replicas: no gradient is added", replicas_are_not_summed),
      row(kLast, "replicas: wq's gradient is added twice", again({kReduce, kWqWeight, B}, "dp_replicate")),
      row(kLast, "replicas: wq's gradient is added over dp_shard", over({kReduce, kWqWeight, B}, "dp_shard")),
      row(kLast, "replicas: the largest gradient is taken", maximum({kReduce, kWqWeight, B})),
      row(kLast, "replicas: AdamW takes wq's gradient of one", adam_takes_a_summand),
      row(kAccumulate, "replicas: wq's gradient is added in each microbatch, too",
          again({kScatter, kWqWeight, B}, "dp_replicate")),
      row(kAccumulate, "accumulation: the last microbatch replaces the others",
          [](Patient& p) { p.skip(addition_to(p, "grad." + kWqWeight), 1); }),
      row(kAccumulate, "accumulation: a microbatch is not added",
          [](Patient& p) { p.skip(addition_to(p, "grad." + kWqWeight), 0); }),
      row(kAccumulate, "accumulation: a microbatch counts twice",
          [](Patient& p) { p.graph.nodes[addition_to(p, "grad." + kWqWeight)].args[2] = std::int64_t{2}; }),
      row(kAccumulate, "accumulation: gradients are divided by the microbatches",
          scaled({"aten.div.Tensor", "loss", B}, 0.5)),
      row(kLast, "accumulation: the loss is that of the last microbatch",
          [](Patient& p) { p.skip(addition_to(p, "loss_sum"), 1); }),
      row(kLast, "accumulation: a sum is not cleared", keep_sum),
      row(kAccumulate, "loss: divided by the tokens of the rank's own documents",
          left_out({kReduce, "loss", F, 0})),
      row(kAccumulate, "loss: divided by the tokens of one replica",
          over({kReduce, "loss", F, 0}, "dp_shard")),
      row(kLast, "gradient norm: counts each replica", skipped({"aten.div.Scalar", "gradient_norm", U})),
      row(kLast, "gradient norm: is that of dp_shard, divided by replicas",
          over({kReduce, "gradient_norm", U}, "dp_shard")),
  };
}

std::vector<Mistake> of_experts() {
  const auto row = [](const char* name, Make make) {
    return Mistake{"experts", kStep, name, std::move(make)};
  };
  return {
      row("router: its bias follows the rank's own counts", left_out({kReduce, "load_balance", U})),
      row("router: its bias follows the counts of dp", over({kReduce, "load_balance", U}, "dp")),
      row("router: its bias follows counts that are added twice", again({kReduce, "load_balance", U}, "tp")),
      row("router: two layers take each other's bias", exchange_biases),
      row("router: its gradient is not added", left_out({kScatter, kMoe + ".router.gate.weight", B})),
      row("router: gradients of scores are not added", left_out({kScatter, kMoe + ".combine", B})),
      row("experts: outputs are not added", left_out({kScatter, kMoe + ".combine", F})),
      row("experts: gradients of tokens are not added", left_out({kScatter, kMoe + ".dispatch", B})),
      row("experts: tokens are not gathered", left_out({kGather, kMoe + ".dispatch", F, 1})),
      row("experts: a rank takes those of its neighbour", take_neighbours_experts),
      row("experts: w1's gradient is added over ranks with other experts",
          again({"aten.view", kExpertsW1 + ".weight", B}, "ep")),
      row("experts: w1's gradient is divided by the ranks of ep",
          scaled({"rondo.grouped_mm", kExpertsW1, B, 1}, 0.25)),
      row("shared experts: outputs are not added", left_out({kScatter, kMoe + ".shared_experts", F})),
      row("shared experts: gradients of tokens are not added",
          left_out({kScatter, kMoe + ".shared_experts", B})),
      row("shared experts: outputs are added over dp", over({kScatter, kMoe + ".shared_experts", F}, "dp")),
      row("latents: the gradient of their norm is not added",
          left_out({kScatter, kAttention + ".kv_norm.weight", B})),
      row("latents: they are not gathered", left_out({kGather, kAttention, F, 1})),
      row("AdamW: the shared w1 and w3 take each other's gradient",
          exchanged(kGradients, "layers.1.moe.shared_experts.w1.weight",
                    "layers.1.moe.shared_experts.w3.weight", /*in_norm=*/true)),
  };
}

std::vector<Mistake> of_few_experts() {
  const auto row = [](const char* name, Make make) {
    return Mistake{"few experts", kStep, name, std::move(make)};
  };
  return {
      row("experts: w1's gradient is added over ep", over({kScatter, kExpertsW1 + ".weight", B}, "ep")),
      row("experts: w1's gradient is not added", left_out({kScatter, kExpertsW1 + ".weight", B})),
      row("experts: w1's gradient is added over ep, too", again({kScatter, kExpertsW1 + ".weight", B}, "ep")),
      row("experts: w1 is gathered over ep", over({kGather, kExpertsW1 + ".weight", F}, "ep")),
      row("experts: w1's gradient counts each rank of ep", scaled({"rondo.grouped_mm", kExpertsW1, B, 1}, 2)),
      row("experts: counts are not exchanged", left_out({kGather, kMoe + ".dispatch", F})),
      row("router: its bias follows the counts of efsdp", over({kReduce, "load_balance", U}, "efsdp")),
      row("gradient norm: is that of ep", over({kReduce, "gradient_norm", U}, "ep")),
  };
}

std::vector<Mistake> of_pipelines() {
  using enum pipeline::ActionType;
  const auto row = [](std::string_view function, const char* name, Make make) {
    return Mistake{"pipeline", function, name, std::move(make)};
  };
  const auto schedule = [](const char* name, std::function<void(PipelineLayout&)> make) {
    return Mistake{"pipeline", "", name, {}, false, std::move(make)};
  };
  // Stages 0 and 2 are on rank 0, with the embedding, stages 1 and 3 on rank 1, with the head.
  constexpr std::string_view kFirst = "stage_0", kMiddle = "stage_1", kLast = "stage_3", kUpdate = "update";
  return {
      row(kMiddle, "stage: its gradients are divided by the microbatches",
          input_scaled("received_gradient", 0.25)),
      row(kLast, "stage: the loss is divided by the microbatches",
          scaled({"aten.div.Tensor", "loss", F}, 0.25)),
      row(kLast, "stage: a microbatch's gradient is added twice",
          [](Patient& p) { p.graph.nodes[addition_to(p, "grad.output.weight")].args[2] = std::int64_t{2}; }),
      row(kFirst, "stage: the last microbatch replaces the others",
          [](Patient& p) { p.skip(addition_to(p, "grad.tok_embeddings.weight"), 1); }),
      row(kMiddle, "edge: the activation goes where the gradient should go",
          sends_what_came("sent_gradient", "received_hidden")),
      row(kMiddle, "edge: a stage hands on what it was given",
          sends_what_came("sent_hidden", "received_hidden")),
      row(kUpdate, "gradient norm: is that of a rank's own stages",
          over({kReduce, "gradient_norm", U}, "dp")),
      row(kUpdate, "gradient norm: is added over the stages twice",
          again({kReduce, "gradient_norm", U}, "pp_dp")),
      schedule("program: a gradient is sent as an activation",
               [](PipelineLayout& l) {
                 action(l, 1, {0, 1, send_backward}).type = send_forward;
               }),
      schedule("program: an activation comes behind what reads it",
               [](PipelineLayout& l) {
                 std::swap(action(l, 1, {0, 1, receive_forward}), action(l, 1, {0, 1, forward}));
               }),
      schedule("program: weight gradients are added in another order",
               [](PipelineLayout& l) {
                 std::swap(action(l, 0, {0, 2, backward_weight}), action(l, 0, {1, 2, backward_weight}));
               }),
      schedule("program: a microbatch's weight gradients are never made",
               [](PipelineLayout& l) {
                 action(l, 0, {3, 2, backward_weight}).microbatch = 2;
               }),
      schedule("slots: a microbatch takes one that another still holds",
               [](PipelineLayout& l) { --l.proof.in_flight.of_stage[1]; }),
  };
}

}  // namespace

const std::vector<Mistake>& mistakes() {
  static const auto* const mistakes = [] {
    auto* rows = new std::vector<Mistake>;
    for (const auto& group : {of_tensor_parallelism(), of_context_parallelism(), of_replicas(), of_experts(),
                              of_few_experts(), of_pipelines()})
      rows->insert(rows->end(), group.begin(), group.end());
    return rows;
  }();
  return *mistakes;
}

}  // namespace rondo

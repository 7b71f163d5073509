// Builds the train step as functions to trace: forward, loss, backward, reductions, clip, finite
// check, optimizer.
//
// With one microbatch a step is one function, `train_step`. With gradient accumulation it is two.
// `accumulate` runs for each microbatch: it reduce-scatters the gradients and adds them to fp32
// shards (fp64 for fp64 state). `update` then all-reduces the sums over the replicas. With
// GradientSync::step, `accumulate` adds unsharded gradients and `update` also reduce-scatters the
// sums. If sums are reduced, `last` takes the place of the last `accumulate` and of `update`: its
// backward reduces each sum as soon as it is complete. Eager runs call the same functions.
//
// A token loss is divided by the valid tokens of all ranks and all microbatches of the step;
// gradients are summed and never divided. Loss and gradient norm have the same bits on all ranks:
// one all-reduce over all ranks computes both. Replicas contribute the same norm, and
// tensor-parallel ranks the same loss, so these sums are divided by the number of copies.
//
// A mixture of experts balances its load without an auxiliary loss: each step moves the bias of
// every expert by the tokens that all ranks and microbatches sent to it. A step that is not finite
// changes no bias, parameter or moment. No later step changes anything until the host resets
// kHalted, since steps may already be in flight. With early_step_in_backward the updates of a step
// run before it is known to be finite, so a step that is not leaves parameters and moments
// undefined. A model with a sequence-level balance loss differentiates the loss plus the mean of
// that loss over the sequences of all ranks and microbatches. Only the first term is reported.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/trace/step_function.h"
#include "models/parts/decoder.h"
#include "parallel/choices.h"
#include "parallel/rank_context.h"
#include "trainer/step/functions/optimizer.h"

namespace rondo {

struct TrainStepOptions {
  std::int64_t local_batch_size = 1;
  std::int64_t seq_len = 1;  // of undivided rows, as in validation_seq_len
  std::int64_t microbatches = 1;
  std::int64_t validation_batch_size = 1;
  std::int64_t validation_seq_len = 1;
  bool document_attention = false;
  // Chunks of rows in which the head's product and the loss are computed; 0: as few as keep a
  // chunk's logits at 1 GiB or below. nullopt: the loss is whole. A loss whose logits are a product
  // of float8, or whose vocabulary is padded on tensor-parallel ranks, is whole in any case.
  std::optional<std::int64_t> loss_chunks = std::nullopt;
  // Under context parallelism tokens carry their positions. With all-gather attention so do
  // queries, and keys unless they are gathered in order.
  bool has_positions() const { return document_attention || mesh.degree(Axis::cp) > 1; }
  bool divides_queries() const {
    return mesh.degree(Axis::cp) > 1 && sharding.context.exchange == ContextExchange::all_gather;
  }
  bool divides_keys() const { return divides_queries() && sharding.context.runs == 0; }
  BlockCheckpoint checkpoint = {};  // for eager steps; a graph has a memory policy
  double max_norm = 1.0;            // infinity: no clipping
  at::ScalarType state_dtype = at::kFloat;
  std::optional<at::ScalarType> moment_dtype =
      std::nullopt;  // of AdamW; bf16 with an f32 state; absent: state_dtype
  // Seeds the stochastic rounding of parameters and moments in bf16; absent: rounding to nearest.
  std::optional<std::uint64_t> rounding_seed = std::nullopt;
  Mesh mesh{};
  std::int64_t rank = 0;
  ShardingOptions sharding;
  GradientSync gradient_sync = GradientSync::microbatch;
  // Updates of a bucket read no gradient of another bucket, so that a graph can run them in the
  // backward. REQUIRES: no clipping, one microbatch, and steps that are never repeated.
  bool early_step_in_backward = false;
  // Updates bucket after bucket, so that a graph can keep the state of the others in host memory.
  bool state_on_host = false;
  ExpertOverflow expert_overflow = ExpertOverflow::repeat;
  AdamWOptions optimizer;
  std::optional<MuonUpdate> muon = std::nullopt;  // of the matrices of hidden layers; absent: AdamW or Adam
  // The update of a parameter, by name; Muon's only applies to matrices of hidden layers. Empty:
  // `optimizer` and `muon` for all, with the learning rate of the step.
  std::function<ParameterUpdate(const std::string&)> update_of = {};
  // The float8 options of a linear layer or of experts, by the name of the weight. Empty: no layer
  // uses float8.
  std::function<std::optional<Float8Options>(const std::string&)> float8 = {};
  // The bucket of a parameter, by its name and the default bucket. Empty: the default bucket.
  std::function<std::string(const std::string&, const std::string&)> bucket = {};
};

// Names of plain results.
inline const std::string kLoss = "loss", kGradNorm = "grad_norm", kFoundInf = "found_inf";
// Of `validate`: the labels whose losses kLoss adds, over all ranks.
inline const std::string kLabels = "labels";
// With routers: the tokens of the fullest expert over the mean, in the layer where this is largest.
inline const std::string kLoadImbalance = "load_imbalance";
// With routers: the tokens that each router sent to each expert, over all ranks and microbatches,
// fp32 [L, E].
inline const std::string kTokensPerExpert = "tokens_per_expert";
// With a capacity factor: tokens without room, over all ranks, layers and microbatches. Unless they
// are dropped, found_inf is then 1.
inline const std::string kDroppedTokens = "dropped_tokens";
// State that stops later steps: [], in the dtype of the loss, equal on all ranks. It becomes
// nonzero or nan in a step that is not finite, or whose experts overflow without dropping. While it
// is not 0, found_inf is 1 and no step changes anything. The host resets it to 0.
inline const std::string kHalted = "halted";

// The tensors that a stage of a pipeline sends, [N, dim] for the tokens of this rank in the compute
// dtype: hidden states to the next stage, their gradients to the previous one. The receiving stage
// reads BatchTensor::received_hidden and received_gradient.
inline const std::string kSentHidden = "sent_hidden", kSentGradient = "sent_gradient";

struct TrainStepFunctions {
  std::int64_t microbatches = 1;
  StepFunction microbatch;  // "train_step" with one microbatch, otherwise "accumulate"
  // The last microbatch with the update; absent with one microbatch, or if ranks reduce no sums.
  std::optional<StepFunction> last;
  // Applies the sums; absent with one microbatch, or if only `last` would run it.
  std::optional<StepFunction> update;
  // `microbatch` with room for all tokens of all experts; absent if steps are not repeated.
  std::optional<StepFunction> repeat;
  StepFunction validate;  // the sum of losses of one batch and its labels, with room for all tokens
};

// Rows of the tables of the model (RoPE).
inline std::int64_t table_length(const TrainStepOptions& o) {
  return std::max(o.seq_len, o.validation_seq_len);
}

TrainStepFunctions make_train_step(const std::shared_ptr<const Decoder>& model,
                                   const TrainStepOptions& options);

}  // namespace rondo

// The train step as a function that is traced: forward, loss, backward, reductions, clip, finite check,
// optimizer.
//
// With one microbatch a step is one function, `train_step`. With gradient accumulation it is two:
// `accumulate` for each microbatch, which reduce-scatters the microbatch's gradients and adds them to fp32
// shards (fp64 for fp64 state), and then `update`, which first sums these over the replicas. Or, as
// GradientSync says, `accumulate` adds whole gradients up, in fp32 all the same, and `update` reduces the
// sums over the shards first. Eager runs do the same, function by function.
//
// The loss of a token is divided by the valid tokens of all ranks and all microbatches of the step; gradients
// are summed and never divided. Loss and gradient norm are the same bits on all ranks: one all-reduce over
// all of them makes both. Every replica brings the norm of the same gradients, and every rank that shares the
// layers the same loss, so these sums are divided by their numbers.
//
// A mixture of experts balances its load without a loss of its own: each step moves the bias of every expert
// by the tokens that all ranks and microbatches sent to it. A step that is not finite changes no bit of it
// either, and no later step changes anything until the host says so: it may have begun some before it knows.
// Where a model has a loss of each sequence's load besides, what is differentiated is the loss plus the mean
// of that over the sequences of all ranks and microbatches; what is reported is the loss alone.
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
#include "parallel/rank_context.h"
#include "trainer/step/functions/optimizer.h"

namespace rondo {

// What a step does whose experts get more rows than they have room for (parallel/expert_parallel.h).
enum class ExpertOverflow : std::uint8_t {
  repeat,  // change nothing, so that it can be repeated with room for all
  skip,    // change nothing
  drop,    // go on without these rows
};

// How often gradients are summed over the ranks that share one copy of the weights. Replicas always sum
// once a step.
enum class GradientSync : std::uint8_t { microbatch, step };

struct TrainStepOptions {
  std::int64_t local_batch_size = 1;
  std::int64_t seq_len = 1;  // of whole rows, here and in validation
  std::int64_t microbatches = 1;
  std::int64_t validation_batch_size = 1;
  std::int64_t validation_seq_len = 1;
  bool document_attention = false;
  // Of rows that ranks share tokens know their places. Where queries stay on their ranks attention knows
  // them, too, and those of keys that are not gathered in order.
  bool has_positions() const { return document_attention || mesh.degree(Axis::cp) > 1; }
  bool divides_queries() const {
    return mesh.degree(Axis::cp) > 1 && sharding.context.exchange == ContextExchange::all_gather;
  }
  bool divides_keys() const { return divides_queries() && sharding.context.runs == 0; }
  BlockCheckpoint checkpoint = {};  // of eager steps; a graph has a memory policy
  double max_norm = 1.0;            // infinity: no clipping
  at::ScalarType state_dtype = at::kFloat;
  std::optional<at::ScalarType> moment_dtype =
      std::nullopt;  // of the optimizer, bf16 beside f32; absent: the same
  Mesh mesh{};
  std::int64_t rank = 0;
  ShardingOptions sharding;
  GradientSync gradient_sync = GradientSync::microbatch;
  ExpertOverflow expert_overflow = ExpertOverflow::repeat;
  AdamWOptions optimizer;
  // Of a parameter, given its name; empty: `optimizer` for all, with the step's learning rate.
  std::function<ParameterUpdate(const std::string&)> update_of = {};
  // Of the weight of a linear layer by its name, where its products are of float8; empty: none are.
  std::function<std::optional<Float8Options>(const std::string&)> float8 = {};
  // Of a parameter, given its name and the model's own bucket; empty: the model's own.
  std::function<std::string(const std::string&, const std::string&)> bucket = {};
};

// Names of plain results.
inline const std::string kLoss = "loss", kGradNorm = "grad_norm", kFoundInf = "found_inf";
// Only with routers: tokens of the fullest expert over the mean, of the layer where that is largest.
inline const std::string kLoadImbalance = "load_imbalance";
// Only with routers: how many tokens of all ranks and microbatches each of them sent to each expert, fp32 [L,
// E].
inline const std::string kTokensPerExpert = "tokens_per_expert";
// Only where experts have room for a number of rows that may not do (parallel/expert_parallel.h): rows of all
// ranks, layers and microbatches that were left out. Unless they are dropped, found_inf is then 1.
inline const std::string kDroppedTokens = "dropped_tokens";
// The state of a run that stops its steps: [], of the loss's dtype, alike on all ranks. 0; not 0, or nan,
// from a step on that is not finite, or whose experts overflow and drops nothing. While it is not 0 found_inf
// is 1, and no step changes anything. The host sets it to 0 again.
inline const std::string kHalted = "halted";

// What a stage of a pipeline sends, [N, dim] for this rank's tokens in the compute dtype: hidden states to the
// next stage, their gradients to the one before. The other end reads BatchTensor::received_hidden and
// received_gradient.
inline const std::string kSentHidden = "sent_hidden", kSentGradient = "sent_gradient";

struct TrainStepFunctions {
  std::int64_t microbatches = 1;
  StepFunction microbatch;             // runs for each: "train_step" where there is one, else "accumulate"
  std::optional<StepFunction> update;  // of the accumulated gradients; absent with one microbatch
  // `microbatch` with room for all tokens of all experts; absent where no step is repeated.
  std::optional<StepFunction> repeat;
  StepFunction validate;  // the loss of one batch, with room for all tokens
};

// Rows that the model's tables (RoPE) must have.
inline std::int64_t table_length(const TrainStepOptions& o) {
  return std::max(o.seq_len, o.validation_seq_len);
}

TrainStepFunctions make_train_step(const std::shared_ptr<const Decoder>& model,
                                   const TrainStepOptions& options);

}  // namespace rondo

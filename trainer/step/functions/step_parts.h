// Declares the batch inputs of the functions of a step, and builds the parts that their bodies
// share: forward, backward and sums over microbatches.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/rank_context.h"
#include "trainer/step/functions/step_context.h"
#include "trainer/step/functions/step_signature.h"
#include "trainer/step/functions/step_totals.h"

namespace rondo {

using Tensors = std::vector<at::Tensor>;

// The loss of a batch: its share of the mean over the labels of the step, or the sum over its
// labels.
enum class LossOf : std::uint8_t { step, labels };

// The positions of the batch inputs of a stage, for forward and backward.
struct BatchInputs {
  LossOf loss;
  Range buffers, expert_biases;
  std::size_t tokens = 0, labels = 0, positions = 0, query_positions = 0, key_positions = 0, borders = 0,
              valid_tokens = 0;  // with LossOf::step
  std::size_t hidden = 0;        // BatchTensor::received_hidden
  std::int64_t rows, length;
  std::int64_t loss_rows = 0;  // whose logits are in memory at a time; 0: all

  BatchInputs(SignatureBuilder& b, const StepContext& step, LossOf loss, std::int64_t rows,
              std::int64_t length);
};
// Declare the inputs of a microbatch, and of a validation batch, whose losses are added.
BatchInputs training_batch(SignatureBuilder& b, const StepContext& step);
BatchInputs validation_batch(SignatureBuilder& b, const StepContext& step);
// Declares the input for the number of labels of this rank that count: f32 [].
std::size_t valid_tokens_input(SignatureBuilder& b, const StepContext& step);
// Returns the input for the hidden states or gradients that pass between two stages, for `rows`
// rows of `length` tokens each.
StepInput stream(const StepContext& step, const std::string& name, ir::InputKind kind, std::int64_t rows,
                 std::int64_t length);

// A forward whose backward may run later. It keeps alive all that the backward reads.
struct ForwardPass {
  Tensors shards;     // leaves, detached
  at::Tensor hidden;  // a leaf; undefined with the embedding
  at::Tensor loss_or_hidden;
  StepTotals totals;  // of this rank, detached
  RankContext ranks;
  ForwardInputs inputs;
  std::vector<RouterLoad> loads;
  bool adds_gradients = false;  // the backward adds gradients to sums and returns none
};
// The inputs to which a backward adds gradients: none, or the sums over microbatches. A backward
// that completes them returns the sums, reduced, as the gradients of the shards. One that does not
// adds only to whole sums.
struct BackwardSums {
  Range at = {};
  bool completes = false;
};
// Runs the forward with gradients. Without sums the backward reduces gradients.
std::shared_ptr<ForwardPass> forward_pass(const StepContextPtr& step, const BatchInputs& at_input,
                                          const Range& parameters, const BackwardSums& sums,
                                          const Tensors& inputs);
// Returns gradients: of the shards, unless they were added to sums, then of the received hidden
// states. `gradient` is the gradient of the hidden states that the stage sent, undefined with a
// head. `keep`: the pass runs backward again.
struct Wanted {
  bool parameters = true, hidden = true;
};
Tensors gradients_of(const StepContext& step, const ForwardPass& pass, const at::Tensor& gradient,
                     Wanted wanted, bool keep = false);
// Returns the loss of a batch on this rank, or the hidden states that the stage sends, without
// gradients.
at::Tensor evaluate(const StepContext& step, const BatchInputs& at_input, const Range& parameters,
                    const Tensors& inputs);

// Declares the sums of StepTotals::list() over microbatches. The functions of a stage and the
// update share them.
Range totals_sums(SignatureBuilder& b, const StepContext& step);
StepTotals totals_from(const StepContext& step, const Tensors& sums);

}  // namespace rondo

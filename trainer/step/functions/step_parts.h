// What the functions of a step are made of: which tensors each reads, and the bodies that several share.
//
// A pipeline's stage is a decoder like any other (models/parts/decoder.h), and its functions are those of a
// whole model, but that without an embedding it takes the stream [N, D] of the stage before, and without a
// head it gives one and takes its gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/rank_context.h"
#include "trainer/step/functions/optimizer.h"
#include "trainer/step/functions/placement.h"
#include "trainer/step/functions/step_signature.h"
#include "trainer/step/functions/step_totals.h"
#include "trainer/step/functions/train_step.h"

namespace rondo {

using Tensors = std::vector<at::Tensor>;
void append(Tensors& to, const Tensors& from);

// What functions are made for: a model, a stage of it, or the stages of a rank.
struct StepContext {
  std::shared_ptr<const Decoder> model;  // which the forward runs; the whole for the stages of a rank
  TrainStepOptions options;
  std::string stage;                      // "stage_3"; empty: all of the model
  bool embedding = true, head = true;     // that the forward has
  std::vector<ParameterRule> parameters;  // of all that it is made for, in the table's order
  std::vector<Placement> placements;
  std::vector<ExpertBias> expert_biases;
  Runs parameter_runs, router_runs;  // where these stand among the whole model's
  std::vector<UpdateGroup> update_groups;
  InputSharding sharding;
  ModelInputs inputs;

  // What the loss is, and microbatches are summed in.
  ir::DType sums() const;
  // Of all that it is made for, and of the whole model.
  bool has_routers() const { return router_runs.count() > 0; }
  bool model_has_routers() const { return router_runs.of() > 0; }
  bool is_bounded() const { return options.sharding.experts.is_bounded(); }
  // Whether microbatches add up whole gradients.
  bool has_whole_sums() const { return options.gradient_sync == GradientSync::step; }
};
using StepContextPtr = std::shared_ptr<const StepContext>;

struct StageEnds {
  std::string name = "";
  bool embedding = true, head = true;
};
using Decoders = std::vector<std::shared_ptr<const Decoder>>;
// `parts`: of the model, in its order; the forward is that of a single one.
StepContextPtr make_step_context(const std::shared_ptr<const Decoder>& whole, const Decoders& parts,
                                 const StageEnds& ends, const TrainStepOptions& options);

// The batch of a stage as its forward, and its loss or backward, read it.
struct BatchInputs {
  Range buffers, expert_biases;
  std::size_t tokens = 0, labels = 0, positions = 0, query_positions = 0, key_positions = 0, borders = 0,
              valid_tokens = 0;
  std::size_t hidden = 0;  // BatchTensor::received_hidden
  std::int64_t rows, length;

  BatchInputs(SignatureBuilder& b, const StepContext& step, std::int64_t rows, std::int64_t length);
};
BatchInputs training_batch(SignatureBuilder& b, const StepContext& step);
// The stream between two stages, of `rows` of `length` tokens each.
StepInput stream(const StepContext& step, const std::string& name, ir::InputKind kind, std::int64_t rows,
                 std::int64_t length);

// A forward whose backward may come later; what that reads lives as long as this does.
struct ForwardPass {
  Tensors shards;     // leaves, detached
  at::Tensor hidden;  // a leaf; undefined with the embedding
  at::Tensor loss_or_hidden;
  StepTotals totals;  // of this rank, detached
  RankContext ranks;
  ForwardInputs inputs;
  std::vector<RouterLoad> loads;
  bool adds_gradients = false;  // the backward does, to sums
};
// `sums`: of whole gradients, to which the backward adds its own; none: it reduces them.
std::shared_ptr<ForwardPass> forward_pass(const StepContextPtr& step, const BatchInputs& at_input,
                                          const Range& parameters, const Range& sums, const Tensors& inputs);
// Of what is wanted, one after the other: the shards, unless their gradients were added to sums, then the
// stream that was received. `gradient` is that of the stream that the stage gave, undefined with the head.
// `keep`: the pass goes backward once more.
struct Wanted {
  bool parameters = true, hidden = true;
};
Tensors gradients_of(const StepContext& step, const ForwardPass& pass, const at::Tensor& gradient,
                     Wanted wanted, bool keep = false);
// The loss of a batch, or the stream that the stage gives. Without gradients.
at::Tensor evaluate(const StepContext& step, const BatchInputs& at_input, const Range& parameters,
                    const Tensors& inputs);

// What microbatches add up: gradients, and StepTotals::list(). Each belongs to the functions of a stage and
// to the update. "grad.NAME" is not yet summed over the replicas, "unsharded_grad.NAME" (of what the rank
// computes with, flattened, without padding) not over the shards either.
Range gradient_sums(SignatureBuilder& b, const StepContext& step);
// The sum over all ranks, of this rank's shard, given that of its microbatches.
at::Tensor reduced_sum(const StepContext& step, std::size_t parameter, const at::Tensor& sum);
Range totals_sums(SignatureBuilder& b, const StepContext& step);
StepTotals totals_from(const StepContext& step, const Tensors& sums);

}  // namespace rondo

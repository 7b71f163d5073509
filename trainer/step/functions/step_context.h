// Describes what the functions of a step are built for: the parts of the model, their places among
// the ranks, and the inputs for the state of the model.
//
// A stage of a pipeline is a decoder like any other (models/parts/decoder.h). Its functions are
// those of a whole model, except that a stage without an embedding receives hidden states [N, D],
// and a stage without a head sends them and receives their gradient.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/step/functions/optimizer.h"
#include "trainer/step/functions/placement.h"
#include "trainer/step/functions/step_signature.h"
#include "trainer/step/functions/step_totals.h"
#include "trainer/step/functions/train_step.h"

namespace rondo {

// A model, one of its stages, or all stages of a rank.
struct StepContext {
  std::shared_ptr<const Decoder> model;  // its forward runs; the whole model for the stages of a rank
  TrainStepOptions options;
  std::string stage;                      // "stage_3"; empty: the whole model
  bool embedding = true, head = true;     // parts of the forward
  std::vector<ParameterRule> parameters;  // of all parts, in the order of the table
  std::vector<ShardPlacement> placements;
  std::vector<ExpertBias> expert_biases;
  Runs parameter_runs, router_runs;  // their places among those of the whole model
  std::vector<UpdateGroup> update_groups;
  InputSharding sharding;
  ModelInputs inputs;

  // Returns the dtype of the loss and of sums over microbatches.
  ir::DType dtype_of_sums() const;
  // Return whether these parts have routers, and whether the whole model has any.
  bool has_routers() const { return router_runs.count() > 0; }
  bool model_has_routers() const { return router_runs.of() > 0; }
  bool is_bounded() const { return options.sharding.experts.is_bounded(); }
  // Returns whether microbatches accumulate unsharded gradients.
  bool has_whole_sums() const { return options.gradient_sync == GradientSync::step; }
  // Returns whether sums over microbatches are reduced over shards or replicas before an update.
  bool reduces_sums() const;
};
using StepContextPtr = std::shared_ptr<const StepContext>;

struct StageEnds {
  std::string name = "";
  bool embedding = true, head = true;
};
using Decoders = std::vector<std::shared_ptr<const Decoder>>;
// `parts` are parts of the model in its order. With a single one, the context has its forward.
StepContextPtr make_step_context(const std::shared_ptr<const Decoder>& whole, const Decoders& parts,
                                 const StageEnds& ends, const TrainStepOptions& options);

// Returns the options of a microbatch whose gradients are reduced over the shards alone: the update
// sums them over the replicas, once a step.
TrainStepOptions without_replica_sums(TrainStepOptions options);
// Returns the options with room for all tokens of all experts.
TrainStepOptions with_room_for_all_tokens(TrainStepOptions options);

}  // namespace rondo

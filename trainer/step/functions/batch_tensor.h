// The tensors that a step function may read anew at each call: parts of a microbatch, scalars of the
// step, and what another stage of a pipeline or another call of the step has computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/trace/step_function.h"
#include "datasets/loader.h"

namespace rondo {

enum class BatchTensor : std::uint8_t {
  tokens,
  labels,
  positions,
  query_positions,
  key_positions,
  document_borders,
  valid_tokens,   // f32 [], of all microbatches of the step
  learning_rate,  // f32 []
  // On the device, from outside of the function.
  received_hidden,    // [N, dim], from the stage before
  received_gradient,  // [N, dim], from the stage behind
  stage_loss,         // [], the rank's share of a validation loss; 0 where it has no head
};

// The name of the input in every function that reads it: "document_borders".
std::string name_of(BatchTensor tensor);
// Names in a merged pair of subgraphs end with it (compiler/bodies/merge.h). REQUIRES: a batch input.
BatchTensor batch_tensor_of(const StepInput& input);
// Whether another stage sends it, so that it is on the device.
bool is_received(const StepInput& input);

// What the batch inputs of one call are read from. The microbatch outlives the tensors.
struct BatchSource {
  const Batch* microbatch = nullptr;
  std::int64_t valid_tokens = 0;
  double learning_rate = 0;
  at::Tensor received_hidden = {}, received_gradient = {}, stage_loss = {};

  // Returns one input: over the microbatch's own memory, or as given above.
  at::Tensor tensor(const StepInput& input) const;
  // Returns all batch inputs of a function, in their order.
  std::vector<at::Tensor> tensors(const StepFunction& function) const;
};

}  // namespace rondo

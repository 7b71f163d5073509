// The inputs of a step function that change with each call: parts of a microbatch, scalars of the
// step, and results of another stage of a pipeline or of another call of the step.
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
  // On the device, computed by another function.
  received_hidden,    // [N, dim], from the previous stage
  received_gradient,  // [N, dim], from the next stage
  stage_loss,         // [], the rank's losses of a validation batch, added; 0 without a head
};

// Returns the name of the input in every function that reads it: "document_borders".
std::string name_of(BatchTensor tensor);
// Accepts names in a merged pair of subgraphs, which end with the name of the tensor
// (compiler/bodies/merge.h). REQUIRES: a batch input.
BatchTensor batch_tensor_of(const StepInput& input);
// Returns whether another stage sends the input, so that it is on the device.
bool is_received(const StepInput& input);

// The sources of the batch inputs of one call. The microbatch must outlive the tensors.
struct BatchSource {
  const Batch* microbatch = nullptr;
  std::int64_t valid_tokens = 0;
  double learning_rate = 0;
  at::Tensor received_hidden = {}, received_gradient = {}, stage_loss = {};

  // Returns one input: a view of the microbatch's memory, or a tensor from above.
  at::Tensor tensor(const StepInput& input) const;
  // Returns all batch inputs of a function, in their order.
  std::vector<at::Tensor> tensors(const StepFunction& function) const;
};

}  // namespace rondo

#include "trainer/step/functions/batch_tensor.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <array>
#include <string_view>

#include "support/error.h"

namespace rondo {
namespace {

constexpr std::array<std::string_view, 11> kNames = {  // in the order of BatchTensor
    "tokens",           "labels",       "positions",     "query_positions", "key_positions",
    "document_borders", "valid_tokens", "learning_rate", "received_hidden", "received_gradient",
    "stage_loss"};

template <class T>
at::Tensor view_of(const std::vector<T>& data, const ir::TensorType& type) {
  RONDO_ASSERT(std::ssize(data) == ir::element_count(type), "a batch has the length of the step's inputs");
  return at::from_blob(const_cast<T*>(data.data()), type.sizes,
                       at::TensorOptions().dtype(to_aten(type.dtype)));
}

at::Tensor scalar(double value) { return at::full({}, value, at::TensorOptions().dtype(at::kFloat)); }

}  // namespace

std::string name_of(BatchTensor tensor) { return std::string(kNames[static_cast<std::size_t>(tensor)]); }

BatchTensor batch_tensor_of(const StepInput& input) {
  const std::string_view name = std::string_view(input.name).substr(input.name.rfind('.') + 1);
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<BatchTensor>(i);
  RONDO_ASSERT(false, "no batch has a tensor " + input.name);
}

bool is_received(const StepInput& input) {
  if (input.kind != ir::InputKind::batch) return false;
  const BatchTensor tensor = batch_tensor_of(input);
  return tensor == BatchTensor::received_hidden || tensor == BatchTensor::received_gradient;
}

at::Tensor BatchSource::tensor(const StepInput& input) const {
  switch (batch_tensor_of(input)) {
    case BatchTensor::tokens:
      return view_of(microbatch->tokens, input.type);
    case BatchTensor::labels:
      return view_of(microbatch->labels, input.type);
    case BatchTensor::positions:
      return view_of(microbatch->positions, input.type);
    case BatchTensor::query_positions:
      return view_of(microbatch->query_positions, input.type);
    case BatchTensor::key_positions:
      return view_of(microbatch->key_positions, input.type);
    case BatchTensor::document_borders:
      return view_of(microbatch->cu_seqlens, input.type);
    case BatchTensor::valid_tokens:
      return scalar(static_cast<double>(valid_tokens));
    case BatchTensor::learning_rate:
      return scalar(learning_rate);
    case BatchTensor::received_hidden:
      return received_hidden;
    case BatchTensor::received_gradient:
      return received_gradient;
    case BatchTensor::stage_loss:
      return stage_loss;
  }
  RONDO_ASSERT(false, "an enumerator is missing");
}

std::vector<at::Tensor> BatchSource::tensors(const StepFunction& function) const {
  std::vector<at::Tensor> tensors;
  for (const StepInput& input : function.inputs)
    if (input.kind == ir::InputKind::batch) tensors.push_back(tensor(input));
  return tensors;
}

}  // namespace rondo

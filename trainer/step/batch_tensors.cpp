#include "trainer/step/batch_tensors.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include "support/error.h"

namespace rondo {
namespace {

template <class T>
at::Tensor view_of(const std::vector<T>& data, const ir::TensorType& type) {
  RONDO_ASSERT(std::ssize(data) == ir::element_count(type), "a batch is as long as the step's inputs");
  return at::from_blob(const_cast<T*>(data.data()), type.sizes,
                       at::TensorOptions().dtype(to_aten(type.dtype)));
}

}  // namespace

at::Tensor batch_tensor(const Batch& batch, const StepInput& input, std::int64_t valid_tokens) {
  if (input.name == "tokens") return view_of(batch.tokens, input.type);
  if (input.name == "labels") return view_of(batch.labels, input.type);
  if (input.name == "positions") return view_of(batch.positions, input.type);
  if (input.name == "query_positions") return view_of(batch.query_positions, input.type);
  if (input.name == "key_positions") return view_of(batch.key_positions, input.type);
  if (input.name == "document_borders") return view_of(batch.cu_seqlens, input.type);
  if (input.name == "valid_tokens")
    return at::full({}, static_cast<double>(valid_tokens), at::TensorOptions().dtype(at::kFloat));
  return {};
}

std::vector<at::Tensor> batch_tensors(const Batch& batch, const StepFunction& function,
                                      std::int64_t valid_tokens) {
  std::vector<at::Tensor> tensors;
  for (const StepInput& input : function.inputs) {
    if (input.kind != ir::InputKind::batch) continue;
    if (at::Tensor tensor = batch_tensor(batch, input, valid_tokens); tensor.defined())
      tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace rondo

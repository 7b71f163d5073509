#include "trainer/step/functions/step_signature.h"

#include <algorithm>

#include "support/error.h"

namespace rondo {
namespace {

template <class Matches>
std::size_t position(const std::vector<ir::Output>& outputs, Matches matches) {
  return static_cast<std::size_t>(std::find_if(outputs.begin(), outputs.end(), matches) - outputs.begin());
}

}  // namespace

void StepOutputs::result(const std::string& name, at::Tensor tensor) {
  write(position(declared_, [&](const ir::Output& o) { return o.updates < 0 && o.name == name; }),
        std::move(tensor));
}

void StepOutputs::update(std::size_t input, at::Tensor tensor) {
  write(position(declared_, [&](const ir::Output& o) { return o.updates == static_cast<int>(input); }),
        std::move(tensor));
}

void StepOutputs::update(const Range& inputs, const std::vector<at::Tensor>& tensors) {
  RONDO_ASSERT(tensors.size() == inputs.count, "a range is updated by one tensor per input");
  if (inputs.count == 0) return;
  const std::size_t first =
      position(declared_, [&](const ir::Output& o) { return o.updates == static_cast<int>(inputs.begin); });
  for (std::size_t i = 0; i < inputs.count; ++i) {
    RONDO_ASSERT(
        first + i < declared_.size() && declared_[first + i].updates == static_cast<int>(inputs.begin + i),
        "a range of inputs has consecutive outputs");
    write(first + i, tensors[i]);
  }
}

void StepOutputs::write(std::size_t output, at::Tensor tensor) {
  RONDO_ASSERT(output < tensors_.size() && !tensors_[output].defined() && tensor.defined(),
               "a body writes the outputs of its signature, each once");
  tensors_[output] = std::move(tensor);
}

std::vector<at::Tensor> StepOutputs::take() {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    RONDO_ASSERT(tensors_[i].defined(), "a body writes its output " + declared_[i].name);
  return std::move(tensors_);
}

}  // namespace rondo

#include "tests/ops/call_op.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace rondo {

std::vector<at::Tensor> call_op(const std::string& name, const std::vector<Argument>& arguments) {
  torch::jit::Stack stack;
  for (const Argument& argument : arguments)
    stack.push_back(std::visit([](const auto& value) { return c10::IValue(value); }, argument));
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(("rondo::" + name).c_str(), "");
  const auto& schema = op.schema().arguments();
  for (std::size_t i = arguments.size(); i < schema.size(); ++i)
    stack.push_back(schema[i].default_value().value());
  op.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : stack) {
    if (!value.isTensorList())
      results.push_back(value.toTensor());
    else
      for (const at::Tensor& tensor : value.toTensorVector()) results.push_back(tensor);
  }
  return results;
}

}  // namespace rondo

// Runs the step function itself with real tensors: the reference for graphs.
#include "compiler/execute/executor.h"
#include "compiler/execute/input_contract.h"

namespace rondo {
namespace {

std::vector<InputContract::Expected> expected_of(const StepFunction& function) {
  std::vector<InputContract::Expected> result;
  for (const StepInput& input : function.inputs) result.push_back({input.name, input.kind, input.type});
  return result;
}

class Eager final : public Executor {
 public:
  Eager(StepFunction function, std::vector<at::Tensor> state, c10::Device without_state)
      : function_(std::move(function)), contract_(expected_of(function_), std::move(state), without_state) {}

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& batch) override {
    const ObservedRun observed(function_.name);
    const std::vector<at::Tensor> outputs = function_.body(contract_.check_and_move(batch));
    return contract_.write_back(function_.outputs, outputs);
  }

 private:
  StepFunction function_;
  InputContract contract_;
};

}  // namespace

std::unique_ptr<Executor> make_eager(StepFunction function, std::vector<at::Tensor> state,
                                     c10::Device without_state) {
  return std::make_unique<Eager>(std::move(function), std::move(state), without_state);
}

}  // namespace rondo

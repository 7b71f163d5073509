#include "compiler/execute/state_updates.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "support/error.h"

namespace rondo {

std::vector<at::Tensor> write_back(const std::vector<ir::Output>& outputs,
                                   const std::vector<at::Tensor>& tensors, const InputContract& contract) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (tensors[i].device() != contract.device())
      throw Error(ExitCode::graph, "result \"" + outputs[i].name + "\" of the step lies on " +
                                       tensors[i].device().str() + ", and the step runs on " +
                                       contract.device().str() +
                                       "; tensors take their device from an input of the step");
    if (outputs[i].updates < 0) {
      results.push_back(tensors[i]);
      continue;
    }
    const at::Tensor& state = contract.state_of(static_cast<std::size_t>(outputs[i].updates));
    if (state.const_data_ptr() != tensors[i].const_data_ptr()) state.copy_(tensors[i]);
  }
  return results;
}

}  // namespace rondo

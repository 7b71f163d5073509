#include "tests/trainer/step/initial_state.h"

#include <ATen/ops/zeros.h>

#include "models/parts/initialize.h"
#include "parallel/flat_shard.h"

namespace rondo {

std::vector<at::Tensor> initial_state(const StepFunction& function, const Decoder& model) {
  std::vector<at::Tensor> state;
  std::size_t parameter = 0;
  for (const StepInput& input : function.inputs) {
    if (input.kind == ir::InputKind::batch) continue;
    at::Tensor tensor = at::zeros(input.type.sizes, to_aten(input.type.dtype));
    if (input.kind == ir::InputKind::parameter) {
      const ParameterRule& rule = model.parameters()[parameter++];
      initialize(tensor, rule.init, 7, rule.name, FlatShard(rule.sizes));
    }
    for (const Buffer& buffer : model.buffers(input.type.sizes.empty() ? 1 : input.type.sizes[0]))
      if (buffer.name == input.name) tensor.copy_(buffer.value);
    state.push_back(tensor);
  }
  return state;
}

}  // namespace rondo

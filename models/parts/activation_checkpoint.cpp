#include "models/parts/activation_checkpoint.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/headeronly/version.h>

namespace rondo {
namespace {

using torch::autograd::variable_list;

struct CheckpointBackward final : torch::autograd::Node {
  explicit CheckpointBackward(KeepsResults keeps) : kept(keeps) {}

  std::function<at::Tensor(const at::Tensor&)> block;
  KeptResults kept;
  at::Tensor x;
  variable_list leaves;
  bool again = true;  // another part of the backward follows

  variable_list apply(variable_list&& gradients) override {
    const c10::AutoGradMode with_gradients(true);
    const at::Tensor input = x.detach().requires_grad_(true);
    const at::Tensor output = kept.replay([&] { return block(input); }, again);
    variable_list wanted{input};
    // A later part of the backward may compute the gradients of weights, or they go elsewhere than
    // to the leaves.
    if (!leaves.empty() && task_should_compute_output(1))
      wanted.insert(wanted.end(), leaves.begin(), leaves.end());
    variable_list made = torch::autograd::grad({output}, wanted, {gradients[0]}, /*retain_graph=*/false,
                                               /*create_graph=*/false, /*allow_unused=*/true);
    made.resize(1 + leaves.size());
    return made;
  }
  // Before the last apply().
  void will_release_variables() override { again = false; }
  void release_variables() override {
    x.reset();
    leaves.clear();
  }
};

// LibTorch 2.15 counts the references of a node in the node.
auto new_node(KeepsResults keeps) {
#if TORCH_VERSION_MINOR < 15
  return std::shared_ptr<CheckpointBackward>(new CheckpointBackward(keeps), torch::autograd::deleteNode);
#else
  return c10::make_intrusive<CheckpointBackward>(keeps);
#endif
}

}  // namespace

at::Tensor checkpoint(std::function<at::Tensor(const at::Tensor&)> block, const at::Tensor& x,
                      const std::vector<at::Tensor>& leaves, KeepsResults keeps) {
  if (!c10::GradMode::is_enabled()) return block(x);
  const auto node = new_node(keeps);
  at::Tensor output;
  {
    const c10::AutoGradMode without_gradients(false);
    output = node->kept.record([&] { return block(x); });
  }
  variable_list inputs{x};
  inputs.insert(inputs.end(), leaves.begin(), leaves.end());
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  node->block = std::move(block);
  node->x = x.detach();
  node->leaves = leaves;
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace rondo

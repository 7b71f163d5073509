// The reference interpreter: calls the graph's ops in order through the dispatcher and frees each
// value after its last read. It plans nothing, and a replay must give the same bits. It runs on the
// device of the state.
#include <ATen/core/LegacyTypeDispatch.h>

#include "compiler/execute/boxed_node.h"
#include "compiler/execute/executor.h"
#include "compiler/execute/input_contract.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "support/error.h"

namespace rondo {
namespace {

class Interpreter final : public Executor {
 public:
  Interpreter(ir::Graph graph, std::vector<at::Tensor> state, c10::Device without_state)
      : graph_(std::move(graph)), contract_(expected_inputs(graph_), std::move(state), without_state) {
    for (const ir::Node& node : graph_.nodes)
      if (node.op != ir::kReturn) calls_.emplace_back(node, contract_.device());
    plan_releases();
  }

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& batch) override {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    std::vector<at::Tensor> values(graph_.values.size());
    const std::vector<at::Tensor> inputs = contract_.check_and_move(batch);
    for (std::size_t i = 0; i < inputs.size(); ++i) values[index(graph_.inputs[i].value)] = inputs[i];
    const auto tensor_of = [&](ir::ValueId id) { return values[index(id)]; };
    torch::jit::Stack stack;
    const ObservedRun observed(graph_);
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      observed.reached(calls_[i].node());
      stack.clear();
      calls_[i].push(stack, tensor_of);
      calls_[i].call(stack);
      keep_results(calls_[i].node(), flatten_results(stack), values);
      for (ir::ValueId id : releases_[i]) values[index(id)].reset();
    }
    std::vector<at::Tensor> outputs;
    ir::for_each_operand(graph_.return_node(), [&](ir::ValueId id) { outputs.push_back(values[index(id)]); });
    return contract_.write_back(graph_.outputs, outputs);
  }

 private:
  static std::size_t index(ir::ValueId id) { return static_cast<std::size_t>(id); }

  void plan_releases() {
    releases_.resize(graph_.nodes.size());
    const ir::DefUse def_use(graph_);
    for (const ir::Node& node : graph_.nodes)
      for (ir::ValueId id : node.results)
        releases_[index(std::max(def_use.maker(id), def_use.last_reader(id)))].push_back(id);
  }

  // A result that overwrites an operand is that operand; the others are in the order of the
  // op's results.
  void keep_results(const ir::Node& node, const std::vector<at::Tensor>& returned,
                    std::vector<at::Tensor>& values) {
    std::size_t next = 0;
    for (ir::ValueId id : node.results) {
      const ir::ValueId overwritten = graph_.value(id).writes;
      if (overwritten != ir::kNoValue) {
        values[index(id)] = values[index(overwritten)];
        continue;
      }
      RONDO_ASSERT(next < returned.size(), node.op + " returned fewer tensors than its node has results");
      values[index(id)] = on_its_device(node, id, returned[next++]);
    }
  }

  // Requires a result on the device, or on the host if the graph says so. Transfers only copy, so
  // they are moved here.
  at::Tensor on_its_device(const ir::Node& node, ir::ValueId id, const at::Tensor& result) const {
    if (!result.defined()) return result;
    const bool on_host = graph_.value(ir::storage_root(graph_, id)).on_host;
    const c10::Device device = on_host ? c10::Device(c10::kCPU) : contract_.device();
    if (result.device() == device) return result;
    if (ir::facts(node.op).effect == ir::Effect::transfer_start) return result.to(device);
    check_device(node, result, device);
    return result;
  }

  ir::Graph graph_;
  InputContract contract_;
  std::vector<BoxedNode> calls_;
  std::vector<std::vector<ir::ValueId>> releases_;  // values that die after each node
};

}  // namespace

std::unique_ptr<Executor> make_interpreter(ir::Graph graph, std::vector<at::Tensor> state,
                                           c10::Device without_state) {
  return std::make_unique<Interpreter>(std::move(graph), std::move(state), without_state);
}

}  // namespace rondo

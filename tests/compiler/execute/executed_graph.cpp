// The group is a backend whose collectives compute at the wait, so an operand that is overwritten
// too early changes the result.
#include "tests/compiler/execute/executed_graph.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/randn.h>

#include <functional>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "compiler/trace/step_function.h"
#include "parallel/groups/ordered_gloo.h"

namespace rondo {

using Tensors = std::vector<at::Tensor>;

namespace {

class Later final : public c10d::Work {
 public:
  explicit Later(std::function<void()> work) : work_(std::move(work)) {}
  bool isCompleted() override { return work_ == nullptr; }
  bool wait(std::chrono::milliseconds) override {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    if (work_ != nullptr) work_();
    work_ = nullptr;
    return true;
  }

 private:
  std::function<void()> work_;
};

// Reads its input at the wait, the latest time that is allowed.
class Twins final : public c10d::Backend {
 public:
  Twins() : c10d::Backend(/*rank=*/0, /*size=*/2) {}
  const std::string getBackendName() const override { return "twins"; }

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions&) override {
    return c10::make_intrusive<Later>([=] {
      output.view({2, -1}).copy_(input.view({1, -1}).expand({2, input.numel()}));
    });
  }
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    return _allgather_base(outputs.at(0), inputs.at(0), options);
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& received, at::Tensor& sent,
                                               std::vector<std::int64_t>&, std::vector<std::int64_t>&,
                                               const c10d::AllToAllOptions&) override {
    return c10::make_intrusive<Later>([=] {
      const at::Tensor mine = sent.view({2, -1})[0];
      received.view({2, -1}).copy_(mine.expand({2, mine.numel()}));
    });
  }
};

at::ScalarType bits_of(at::ScalarType dtype) {
  const auto bytes = c10::elementSize(dtype);
  return bytes == 8 ? at::kLong : bytes == 4 ? at::kInt : at::kShort;
}

}  // namespace

void register_twin_group() {
  static const auto group = [] {
    const auto process_group = c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(),
                                                                       /*rank=*/0, /*size=*/2);
    process_group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::CUSTOM,
                              c10::make_intrusive<OrderedGloo>(c10::make_intrusive<Twins>()));
    process_group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
    process_group->setGroupName("dp");
    c10d::register_process_group("dp", process_group);
    return process_group;
  }();
}

Tensors random_inputs(const ir::Graph& graph, std::uint64_t seed) {
  at::manual_seed(seed);
  Tensors inputs;
  for (const ir::Input& input : graph.inputs) {
    const ir::TensorType& type = graph.value(input.value).type;
    at::Tensor tensor = at::randn(type.sizes, at::TensorOptions().dtype(at::kFloat)).to(to_aten(type.dtype));
    inputs.push_back(input.kind == ir::InputKind::optimizer ? tensor.abs() : tensor);
  }
  return inputs;
}
Tensors copies(const Tensors& tensors) {
  Tensors copied;
  for (const at::Tensor& tensor : tensors) copied.push_back(tensor.clone());
  return copied;
}

bool is_same(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  const at::Tensor equal = x.view(bits_of(x.scalar_type())) == y.view(bits_of(y.scalar_type()));
  return (equal | (x.isnan() & y.isnan())).all().item<bool>();
}

}  // namespace rondo

// The thread includes the dispatch key Fake while the function runs, so every op is intercepted. It
// excludes the key while an op runs, so a kernel's own calls are not. Kept tensors are copies
// without autograd metadata. They share storage and version counter with the function's tensors, so
// the version reveals in-place writes. If another replay follows, replay() returns such a copy too,
// because autograd attaches the tensor to a graph.
#include "models/parts/kept_results.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "support/error.h"

namespace rondo {

using c10::IValue;

struct KeptResults::Call {
  std::string op;
  std::vector<IValue> results;
  std::uint32_t versions = 0;  // sum of the versions of all tensors in `results`
};

namespace {

template <class Map>
void map_tensors(IValue& value, const Map& map) {
  if (value.isTensor()) {
    value = map(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<at::Tensor> tensors;
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(map(tensor));
    value = tensors;
  }
}

IValue copy_without_autograd(IValue value) {
  map_tensors(value, [](const at::Tensor& t) { return t.defined() ? t.tensor_data() : t; });
  return value;
}

std::uint32_t versions_of(std::vector<IValue>& values) {
  std::uint32_t sum = 0;
  for (IValue& value : values)
    map_tensors(value, [&](const at::Tensor& tensor) {
      if (tensor.defined()) sum += static_cast<std::uint32_t>(tensor._version());
      return tensor;
    });
  return sum;
}

}  // namespace

KeptResults::KeptResults(KeepsResults keeps) : keeps_(keeps) {}
KeptResults::~KeptResults() = default;

at::Tensor KeptResults::run(const std::function<at::Tensor()>& function) {
  if (keeps_ == nullptr) return function();
  counted_ = 0;
  const Interception here(*this);
  const c10::impl::IncludeDispatchKeyGuard all_ops(c10::DispatchKey::Fake);
  return function();
}

at::Tensor KeptResults::record(const std::function<at::Tensor()>& function) { return run(function); }

at::Tensor KeptResults::replay(const std::function<at::Tensor()>& function, bool again) {
  replays_ = true;
  again_ = again;
  handed_out_ = 0;
  at::Tensor result = run(function);
  RONDO_ASSERT(handed_out_ == kept_.size(), "a function that is computed again calls fewer ops");
  if (!again) kept_.clear();
  return result;
}

void KeptResults::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, std::vector<IValue>* stack) {
  const std::string name = op_name(op);
  const Kept keeps = keeps_(name);
  const bool kept = keeps == Kept::always || (keeps == Kept::every_second_call && ++counted_ % 2 == 1);
  if (kept && replays_) return hand_out(op, stack);
  {
    const c10::impl::ExcludeDispatchKeyGuard inside(c10::DispatchKey::Fake);
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Fake),
                       stack);
  }
  if (kept) keep(op, *stack);
}

void KeptResults::keep(const c10::OperatorHandle& op, const std::vector<IValue>& stack) {
  Call kept{op_name(op), {stack.end() - std::ssize(op.schema().returns()), stack.end()}, 0};
  for (IValue& value : kept.results) value = copy_without_autograd(value);
  kept.versions = versions_of(kept.results);
  kept_.push_back(std::move(kept));
}

void KeptResults::hand_out(const c10::OperatorHandle& op, std::vector<IValue>* stack) {
  const std::string name = op_name(op);
  RONDO_ASSERT(handed_out_ < kept_.size() && kept_[handed_out_].op == name,
               "a function that is computed again calls " + name + ", which it did not at first");
  Call& kept = kept_[handed_out_++];
  RONDO_ASSERT(versions_of(kept.results) == kept.versions, "a kept result of " + name + " was overwritten");
  stack->resize(stack->size() - op.schema().arguments().size());
  for (IValue& value : kept.results)
    stack->push_back(again_ ? copy_without_autograd(value) : std::move(value));
}

}  // namespace rondo

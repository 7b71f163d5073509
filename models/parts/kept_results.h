// Selective activation checkpointing (He, "Selective Activation Checkpointing in PyTorch", 2024):
// keeps the results of some ops of a function, so that recomputing the function skips these ops.
//
// The function runs in record() and then in each replay(), with the same arguments and the same ops
// in the same order. In replay(), the n-th op to keep returns its result from record(), bit for
// bit. The other ops run again. This works below autograd: in replay(), autograd sees every op and
// creates its nodes as usual.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "ops/dispatch/op_interceptor.h"

namespace rondo {

// Whether the results of an op are kept. `op` is its name in a graph: "aten.mm.default". All ops
// with every_second_call share one counter, and the first call is kept.
enum class Kept : std::uint8_t { never, every_second_call, always };
using KeepsResults = Kept (*)(std::string_view op);

class KeptResults final : OpInterceptor {
 public:
  // nullptr: keeps nothing.
  explicit KeptResults(KeepsResults keeps);
  ~KeptResults();

  at::Tensor record(const std::function<at::Tensor()>& function);
  // Asserts that the ops are the same and that no kept result was overwritten. `again`: another
  // replay follows. The last replay releases each result when it returns it.
  at::Tensor replay(const std::function<at::Tensor()>& function, bool again = false);

 private:
  struct Call;

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
            std::vector<c10::IValue>* stack) override;
  void keep(const c10::OperatorHandle& op, const std::vector<c10::IValue>& stack);
  void hand_out(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);
  at::Tensor run(const std::function<at::Tensor()>& function);

  KeepsResults keeps_;
  std::vector<Call> kept_;
  std::size_t handed_out_ = 0;
  bool replays_ = false, again_ = false;
  std::int64_t counted_ = 0;  // calls of ops with every_second_call
};

}  // namespace rondo

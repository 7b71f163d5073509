// Results of some ops of a function that are kept, so that it can be computed again without running these
// ops: selective activation checkpointing (He, "Selective Activation Checkpointing in PyTorch", 2024).
//
// The function runs in record() and then in each replay() with the same arguments, and calls the same ops in
// the same order. So the n-th op to keep gives in a replay() what it gave in record(), bit for bit; the other
// ops run again. Below autograd: in replay() autograd sees every op and makes its nodes as always.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "ops/dispatch/op_interceptor.h"

namespace rondo {

// Whether results of an op are kept, by its name as in a graph: "aten.mm.default". Ops of which every second
// call is kept are counted together, and the first one is.
enum class Kept : std::uint8_t { never, every_second_call, always };
using KeepsResults = Kept (*)(std::string_view op);

class KeptResults final : OpInterceptor {
 public:
  // With nullptr nothing is kept.
  explicit KeptResults(KeepsResults keeps);
  ~KeptResults();

  at::Tensor record(const std::function<at::Tensor()>& function);
  // Asserts that the ops are the same and that nobody has overwritten a kept result. `again`: another replay
  // follows. The last one lets go of each result as it hands it out.
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
  std::int64_t counted_ = 0;  // calls of ops of which every second one is kept
};

}  // namespace rondo

// Every op that a thread calls, as LibTorch's dispatcher sees it below autograd and functionalization: with
// its schema and its arguments, right before the kernel. Ops that a composite op calls are seen, those that a
// kernel calls need not be: that is up to the interceptor.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace c10 {
class OperatorHandle;
struct IValue;
}  // namespace c10

namespace rondo {

class OpInterceptor {
 public:
  // Replaces the arguments at the end of `stack` by the results. `keys` are those of the arguments.
  virtual void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                    std::vector<c10::IValue>* stack) = 0;

 protected:
  ~OpInterceptor() = default;
};

// While it lives, ops of this thread with c10::DispatchKey::Fake among their keys go to `to`: those of
// tensors that have it, and all while c10::impl::IncludeDispatchKeyGuard includes it. REQUIRES: one at a time
// a thread.
class Interception {
 public:
  explicit Interception(OpInterceptor& to);
  ~Interception();
  Interception(const Interception&) = delete;
  Interception& operator=(const Interception&) = delete;
};

// "aten.mm.default": as graphs name it.
std::string op_name(const c10::OperatorHandle& op);

}  // namespace rondo

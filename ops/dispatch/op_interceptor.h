// Intercepts every op of a thread as LibTorch's dispatcher sees it below autograd and
// functionalization: with schema and arguments, right before the kernel. Ops called by a composite
// op are intercepted. Whether ops called by a kernel are intercepted is up to the interceptor.
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

// During its lifetime, ops of this thread with c10::DispatchKey::Fake among their keys go to `to`.
// These are ops on tensors that have the key, and all ops while c10::impl::IncludeDispatchKeyGuard
// includes it. REQUIRES: at most one at a time per thread.
class Interception {
 public:
  explicit Interception(OpInterceptor& to);
  ~Interception();
  Interception(const Interception&) = delete;
  Interception& operator=(const Interception&) = delete;
};

// Returns the name used in graphs: "aten.mm.default".
std::string op_name(const c10::OperatorHandle& op);

}  // namespace rondo

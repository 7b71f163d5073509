#include "ops/dispatch/op_interceptor.h"

#include <torch/library.h>

#include "support/error.h"

namespace rondo {
namespace {

thread_local OpInterceptor* interceptor = nullptr;

void intercept(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  RONDO_ASSERT(interceptor != nullptr, "a traced tensor is used after its trace");
  interceptor->call(op, keys, stack);
}

// A dispatch key that LibTorch itself does not use.
TORCH_LIBRARY_IMPL(_, Fake, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&intercept>()); }

}  // namespace

Interception::Interception(OpInterceptor& to) {
  RONDO_ASSERT(interceptor == nullptr, "interceptions do not nest");
  interceptor = &to;
}
Interception::~Interception() { interceptor = nullptr; }

std::string op_name(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  std::string result = name.name;
  result.replace(result.find("::"), 2, ".");
  return result + "." + (name.overload_name.empty() ? "default" : name.overload_name);
}

}  // namespace rondo

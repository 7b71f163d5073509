// Finds an op by its name in LibTorch's dispatcher. Throws c10::Error if no op has that name and
// signature.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace rondo {

// REQUIRES: `Signature` is exactly the C++ signature of the op's schema.
template <class Signature>
c10::TypedOperatorHandle<Signature> op_handle(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace rondo

// An op found by its name in LibTorch's dispatcher. Throws c10::Error where no op has that name or signature.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace rondo {

// REQUIRES: the C++ signature of the op's schema, to the letter.
template <class Signature>
c10::TypedOperatorHandle<Signature> op_handle(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace rondo

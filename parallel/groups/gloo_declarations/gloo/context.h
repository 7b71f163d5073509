// What ProcessGroupGloo.hpp needs of Gloo's headers, which the LibTorch wheel does not carry: names only.
// Nothing here is ever constructed by us; the definitions live in libtorch_cpu.so.
#pragma once

#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo

// Declares the names of Gloo's headers that ProcessGroupGloo.hpp uses, since the LibTorch wheel
// does not include those headers. No object of these types is constructed here. The definitions are
// in libtorch_cpu.so.
#pragma once

#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo

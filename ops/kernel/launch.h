// The context of a launch of one of Rondo's kernels: device, stream, element type.
#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_runtime_api.h>

#include "ops/kernel/element.h"

namespace rondo::cuda {

// Makes the tensor's device current in this thread during its lifetime.
class Launch {
 public:
  // `op` is the name in errors; it outlives this object.
  Launch(const at::Tensor& tensor, const char* op);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // Returns the type of x's elements. Throws Error(internal) for a type that Rondo's kernels do not
  // support.
  Element element(const at::Tensor& x) const;
  cudaStream_t stream() const { return stream_; }
  // Throws c10::Error with the runtime's message if the last launch failed. Does not wait.
  void check() const;

 private:
  const char* op_;
  c10::DeviceIndex before_;
  cudaStream_t stream_;
};

}  // namespace rondo::cuda

// What every launch of a kernel of ours needs to know of its tensors: device, stream, type of the elements.
#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_runtime_api.h>

#include "ops/kernel/element.h"

namespace rondo::cuda {

// While alive, the tensor's device is this thread's current one.
class Launch {
 public:
  // `op` is named in errors, and outlives this.
  Launch(const at::Tensor& tensor, const char* op);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // The type of x's elements. Throws Error(internal) where kernels of ours do not know it.
  Element element(const at::Tensor& x) const;
  cudaStream_t stream() const { return stream_; }
  // Throws c10::Error with the runtime's words if the last launch failed. Does not wait.
  void check() const;

 private:
  const char* op_;
  c10::DeviceIndex before_;
  cudaStream_t stream_;
};

}  // namespace rondo::cuda

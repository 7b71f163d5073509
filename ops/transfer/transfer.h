// Copies between device and host memory (compiler/passes/offload.cpp):
//
//   rondo::offload(x) -> Tensor                   from device to host
//   rondo::reload(x) -> Tensor                    and back
//   rondo::wait_transfer(x) -> x                  the end of either
//   rondo::start_transfer(to!, from)              the two halves of a transfer to known memory
//   rondo::end_transfer(to, from)
//   rondo::pinned_like(x) -> Tensor               host memory for such transfers, not set
//
// Any dtype; results have sizes, strides and dtype of x. Graphs contain the first three: a copy on
// the operand's device, complete when it is started, which the executor moves to its memory.
// Replays know that memory and call the last two instead: a copy in stream order, or on CUDA in the
// background (transfer_cuda.cpp). There `to` and `from` are without gaps and have the same layout,
// and the host's tensor is pinned. Not differentiable; called by name only.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// Returns a copy of `x` in host memory that is pinned for the device of `x`. Returns `x` if it is
// on the CPU.
at::Tensor to_host_memory(const at::Tensor& x);

}  // namespace rondo

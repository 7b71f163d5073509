// Copies between the memories of a device and of the host (compiler/passes/offload.cpp):
//
//   rondo::offload(x) -> Tensor                   what lies on the device, for the host
//   rondo::reload(x) -> Tensor                    and back
//   rondo::wait_transfer(x) -> x                  the end of either
//   rondo::start_transfer(to!, from)              the two halves of a transfer whose place is known
//   rondo::end_transfer(to, from)
//
// Any dtype; results have sizes, strides and dtype of x. Graphs hold the first three: a copy on the device
// where the operand lies, done when it is started, which the executor brings where it belongs. Replays know
// that place, and call the last two in their stead: a copy in the order of the stream, or on CUDA in the
// background (transfer_cuda.cpp). There `to` and `from` have no gaps and lie alike, and the host's one is
// pinned. No autograd; called by name alone.
#pragma once

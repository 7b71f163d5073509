// Copies between device and host memory, on two streams other than the step's, one for each
// direction. A transfer begins after all earlier work on the step's stream, and its end makes that
// stream wait for it. In a recording these are a fork and a join, so the recording with the start
// also has the end (compiler/ops/segments.h).
//
// A background copy requires pinned host memory, as pinned_like and ReplayDevice::reserve_on_host
// allocate.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <map>
#include <mutex>
#include <unordered_map>

#include "support/error.h"

namespace rondo::cuda {
namespace {

using at::Tensor;
using c10::cuda::CUDAStream;

class Transfers {
 public:
  void start(const Tensor& to, const Tensor& from) {
    RONDO_ASSERT(
        from.is_non_overlapping_and_dense() && from.strides() == to.strides() && from.nbytes() == to.nbytes(),
        "a transfer requires tensors without gaps, and with the same layout");
    const c10::DeviceIndex device = device_of(to, from);
    const c10::cuda::CUDAGuard guard(device);
    const std::lock_guard lock(mutex_);
    const CUDAStream beside = stream(device, to.is_cuda());
    at::cuda::CUDAEvent before, done;
    before.record(c10::cuda::getCurrentCUDAStream(device));
    before.block(beside);
    C10_CUDA_CHECK(cudaMemcpyAsync(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes(),
                                   to.is_cuda() ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                                   beside.stream()));
    done.record(beside);
    under_way_.insert_or_assign(to.const_data_ptr(), std::move(done));
  }

  void end(const Tensor& to, const Tensor& from) {
    const std::lock_guard lock(mutex_);
    const auto found = under_way_.find(to.const_data_ptr());
    RONDO_ASSERT(found != under_way_.end(), "a transfer must be started before its end, and ended once");
    found->second.block(c10::cuda::getCurrentCUDAStream(device_of(to, from)));
    under_way_.erase(found);
  }

 private:
  static c10::DeviceIndex device_of(const Tensor& to, const Tensor& from) {
    return (to.is_cuda() ? to : from).device().index();
  }

  CUDAStream stream(c10::DeviceIndex device, bool to_device) {
    const auto key = std::pair(device, to_device);
    if (const auto found = streams_.find(key); found != streams_.end()) return found->second;
    return streams_.emplace(key, c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device))
        .first->second;
  }

  std::mutex mutex_;
  std::unordered_map<const void*, at::cuda::CUDAEvent> under_way_;  // by destination
  std::map<std::pair<c10::DeviceIndex, bool>, CUDAStream> streams_;
};

// Never destroyed: no CUDA object may outlive its runtime in a static destructor.
Transfers& transfers() {
  static auto* const all = new Transfers();
  return *all;
}

// If one of the two is on the CPU, the dispatcher uses the other's device.
void start_transfer(Tensor& to, const Tensor& from) { transfers().start(to, from); }
void end_transfer(const Tensor& to, const Tensor& from) { transfers().end(to, from); }

// Exactly as many bytes as the tensor has: LibTorch's allocator of pinned memory would round them
// up to a power of two.
Tensor pinned_like(const Tensor& x) {
  RONDO_ASSERT(x.is_non_overlapping_and_dense(), "pinned memory is for tensors without gaps");
  const c10::cuda::CUDAGuard guard(x.device());
  void* block = nullptr;
  if (x.nbytes() > 0) C10_CUDA_CHECK(cudaHostAlloc(&block, x.nbytes(), cudaHostAllocDefault));
  const auto release = [](void* memory) {
    if (memory != nullptr) C10_CUDA_IGNORE_ERROR(cudaFreeHost(memory));
  };
  return at::from_blob(block, x.sizes(), x.strides(), release, at::TensorOptions().dtype(x.scalar_type()));
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("start_transfer", &start_transfer);
  m.impl("end_transfer", &end_transfer);
  m.impl("pinned_like", &pinned_like);
}

}  // namespace rondo::cuda

// Pool accounting: `beginAllocateToPool` adds a user of the pool, `releasePool` removes one, and a
// pool without users is freed. This device is a user from its first block to release_pool, each
// turn is one, and each recording is one until it is destroyed. During a capture LibTorch routes
// allocations to the pool itself and refuses to do so twice, so a turn stops routing meanwhile.
#include "compiler/execute/cuda/cuda_device.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <atomic>
#include <map>
#include <vector>

#include "compiler/execute/cuda/placing_allocator.h"
#include "compiler/execute/planned_step.h"
#include "parallel/groups/nccl.h"
#include "support/error.h"
#include "support/log.h"

namespace rondo::cuda {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// Logs exceptions as warnings, for code that must not throw: teardown goes on.
template <class F>
void without_throwing(const char* action, F&& f) noexcept {
  try {
    f();
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    log_warning(std::string(action) + ": " + std::string(text.substr(0, text.find('\n'))));
  }
}

template <class F>
bool succeeds(F&& f) noexcept {
  try {
    f();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

class CudaDevice final : public ReplayDevice {
 public:
  explicit CudaDevice(c10::DeviceIndex index)
      : index_(index),
        // NCCL's kernels have the high priority (parallel/groups/cuda/nccl.cpp). They have few
        // blocks, which would otherwise wait for the blocks of matrix products.
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index)),
        outside_(stream_) {
    const c10::cuda::CUDAGuard guard(index_);
    counter_ = at::zeros({1}, at::TensorOptions().device(device()).dtype(at::kLong));
    C10_CUDA_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&seen_), sizeof *seen_, cudaHostAllocDefault));
    *seen_ = 0;
  }

  ~CudaDevice() override {
    without_throwing("freeing the counter of segments", [&] { C10_CUDA_CHECK(cudaFreeHost(seen_)); });
  }

  c10::Device device() const override { return {c10::kCUDA, index_}; }

  char* reserve(std::size_t bytes) override {
    hold_pool();
    if (bytes == 0) return nullptr;
    const c10::cuda::CUDAStreamGuard on_stream(stream_);
    give_back_cached();
    start_routing();
    try {
      blocks_.push_back(at::empty({static_cast<std::int64_t>(bytes)},
                                  at::TensorOptions().device(device()).dtype(at::kByte)));
    } catch (...) {
      stop_routing();
      throw;
    }
    stop_routing();
    return static_cast<char*>(blocks_.back().mutable_data_ptr());
  }

  char* reserve_on_host(std::size_t bytes) override {
    if (bytes == 0) return nullptr;
    const c10::cuda::CUDAGuard guard(index_);
    void* block = nullptr;
    C10_CUDA_CHECK(cudaHostAlloc(&block, bytes, cudaHostAllocDefault));
    host_blocks_.push_back(block);
    return static_cast<char*>(block);
  }

  void release_pool() noexcept override {
    without_throwing("releasing the pool of the recordings", [&] {
      const c10::cuda::CUDAGuard guard(index_);
      for (void* block : host_blocks_) C10_CUDA_CHECK(cudaFreeHost(block));
      host_blocks_.clear();
      blocks_.clear();
      at::cuda::clearCublasWorkspaces();  // the first turn allocated them from the pool
      has_workspaces_ = false;
      if (holds_pool_) allocator::releasePool(index_, pool_);
      holds_pool_ = false;
      allocator::emptyCache();
    });
  }

  std::int64_t pool_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& segment : allocator::get()->snapshot(pool_, /*include_traces=*/false).segments)
      bytes += segment.total_size;
    return static_cast<std::int64_t>(bytes);
  }

  std::int64_t free_bytes() const override {
    return static_cast<std::int64_t>(allocator::get()->getMemoryInfo(index_).first);
  }

  void enter() override {
    c10::cuda::set_device(index_);
    outside_ = c10::cuda::getCurrentCUDAStream(index_);
    stream_follows(stream_, outside_);
    if (!has_workspaces_) give_back_cached();  // the first turn allocates all memory of the pool
    start_routing();
    c10::cuda::setCurrentCUDAStream(stream_);
    hold_workspaces();
  }

  void leave() noexcept override {
    without_throwing("leaving the stream of the recordings", [&] {
      c10::cuda::setCurrentCUDAStream(outside_);
      stop_routing();
      stream_follows(outside_, stream_);
    });
  }

  // Temporaries use the pool, which grows in stream order, and need no room in the arena.
  Issued issue(Instruction& instruction, std::span<const std::span<char>>) override {
    {
      const ResultPlacement placement(instruction.placements());
      instruction.call();
    }
    return {.copied_results = instruction.settle()};
  }

  void synchronize() override { stream_.synchronize(); }

  void begin_capture() override {
    stop_routing();
    capturing_ = std::make_unique<at::cuda::CUDAGraph>();
    // Thread-local capture: NCCL's watchdog continues to query its events.
    try {
      capturing_->capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    } catch (...) {
      // Leaked: if it had no memory for the generator's state, its destructor ends the process.
      if (!is_capturing()) static_cast<void>(capturing_.release());
      abandon_capture();
      throw;
    }
  }

  Recording end_capture() override {
    capturing_->capture_end();
    recordings_[next_] = std::move(capturing_);
    start_routing();
    return next_++;
  }

  void abandon_capture() noexcept override {
    // The stream must leave its capture even if that fails as well; cudaGetLastError clears
    // the failure.
    const bool ended = is_capturing() && succeeds([&] { capturing_->capture_end(); });
    cudaGetLastError();
    // A capture that failed before it stopped routing does not release its use of the pool.
    if (!ended && succeeds([&] { allocator::endAllocateToPool(index_, pool_); }))
      succeeds([&] { allocator::releasePool(index_, pool_); });
    // The same for the allocator of pinned memory.
    if (!ended && succeeds([&] { at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool_); }))
      succeeds([&] { at::getHostAllocator(at::kCUDA)->release_pool(pool_); });
    capturing_.reset();
    if (!ended) without_throwing("renewing the random state", [&] { renew_random_state(); });
    without_throwing("resuming after a failed capture", [&] { start_routing(); });
  }

  void launch(Recording recording) override {
    note_launched_recording();
    recordings_.at(recording)->replay();
  }

  void destroy(Recording recording) noexcept override {
    without_throwing("destroying a recording", [&] { recordings_.erase(recording); });
  }

  void count_up() override {
    counter_.add_(1);
    C10_CUDA_CHECK(cudaMemcpyAsync(seen_, counter_.const_data_ptr(), sizeof *seen_, cudaMemcpyDeviceToHost,
                                   stream_.stream()));
  }
  std::int64_t counted() const override { return std::atomic_ref(*seen_).load(); }

 private:
  bool is_capturing() const noexcept {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(stream_.stream(), &status) == cudaSuccess &&
           status != cudaStreamCaptureStatusNone;
  }

  // Uses the pool from the first block to release_pool. The next first block begins another pool.
  void hold_pool() {
    if (holds_pool_) return;
    pool_ = at::cuda::graph_pool_handle();
    allocator::beginAllocateToPool(index_, pool_, [](cudaStream_t) { return false; });
    allocator::endAllocateToPool(index_, pool_);
    holds_pool_ = true;
  }

  // While allocations are routed to a pool, the caching allocator cannot reclaim its cache outside
  // of the pool, and would run out of memory early.
  static void give_back_cached() { allocator::emptyCache(); }

  // Allocates cuBLAS's workspaces of this stream, which stay. During an op, they would take the
  // address of its result.
  void hold_workspaces() {
    if (has_workspaces_) return;
    at::cuda::getCurrentCUDABlasHandle();
    at::cuda::getCUDABlasLtWorkspace();
    has_workspaces_ = true;
  }

  // After a capture that did not end, the default generator believes for ever that it is capturing,
  // and refuses to draw. This continues with the same seed and offset in a new state.
  void renew_random_state() {
    auto* const generator =
        at::check_generator<at::CUDAGeneratorImpl>(at::cuda::detail::getDefaultCUDAGenerator(index_));
    const auto state = c10::make_intrusive<at::CUDAGeneratorState>(generator->current_seed(),
                                                                   generator->philox_offset_per_thread());
    generator->graphsafe_set_state(c10::make_intrusive<at::CUDAGeneratorImpl>(index_, state));
  }

  void start_routing() {
    allocator::beginAllocateToPool(index_, pool_,
                                   [mine = stream_.stream()](cudaStream_t stream) { return stream == mine; });
    routing_ = true;
  }

  void stop_routing() {
    if (!routing_) return;
    routing_ = false;
    allocator::endAllocateToPool(index_, pool_);
    allocator::releasePool(index_, pool_);
  }

  static void stream_follows(const c10::cuda::CUDAStream& later, const c10::cuda::CUDAStream& earlier) {
    at::cuda::CUDAEvent event;
    event.record(earlier);
    event.block(later);
  }

  const c10::DeviceIndex index_;
  const c10::cuda::CUDAStream stream_;
  c10::cuda::CUDAStream outside_;  // the thread's own stream, during a turn
  c10::MempoolId_t pool_ = {0, 0};
  bool holds_pool_ = false;
  bool routing_ = false;
  bool has_workspaces_ = false;
  std::vector<at::Tensor> blocks_;
  std::vector<void*> host_blocks_;
  std::unique_ptr<at::cuda::CUDAGraph> capturing_;
  std::map<Recording, std::unique_ptr<at::cuda::CUDAGraph>> recordings_;
  Recording next_ = 0;
  at::Tensor counter_;            // i64[1] on the device
  std::int64_t* seen_ = nullptr;  // pinned: last value written by the device
};

}  // namespace

std::shared_ptr<ReplayDevice> make_device(int index) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index));
  return std::make_shared<CudaDevice>(static_cast<c10::DeviceIndex>(index));
}

}  // namespace rondo::cuda

// A decorator of LibTorch's caching allocator. Only `allocate` uses the thread's placement; all
// other calls are forwarded. A placed block has a deleter that does nothing, because its memory
// belongs to the plan. The decorator is never destroyed, since tensors may outlive any owner.
// Each result is handed out once and matched by its exact size; other requests go to the
// wrapped allocator.
#include "compiler/execute/cuda/placing_allocator.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "support/error.h"

namespace rondo::cuda {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using c10::MempoolId_t;

thread_local ResultPlacement* placement = nullptr;

// The deleter of planned memory, which its plan frees.
void keep(void*) {}

// Forwards all calls except `allocate`.
class PlacingAllocator final : public allocator::CUDAAllocator {
 public:
  explicit PlacingAllocator(allocator::CUDAAllocator& behind) : behind_(behind) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    void* planned = placement == nullptr || bytes == 0 ? nullptr : placement->take(bytes);
    if (planned == nullptr) return behind_.allocate(bytes);
    return {planned, planned, &keep, c10::Device(c10::kCUDA, c10::cuda::current_device())};
  }

  c10::DeleterFnPtr raw_deleter() const override { return behind_.raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    behind_.copy_data(to, from, bytes);
  }
  bool initialized() override { return behind_.initialized(); }
  void emptyCache(MempoolId_t pool) override { behind_.emptyCache(pool); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    return behind_.getDeviceStats(device);
  }
  void resetAccumulatedStats(DeviceIndex device) override { behind_.resetAccumulatedStats(device); }
  void resetPeakStats(DeviceIndex device) override { behind_.resetPeakStats(device); }

  void* raw_alloc(std::size_t bytes) override { return behind_.raw_alloc(bytes); }
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override {
    return behind_.raw_alloc_with_stream(bytes, stream);
  }
  void raw_delete(void* pointer) override { behind_.raw_delete(pointer); }
  void init(int devices) override { behind_.init(devices); }
  double getMemoryFraction(DeviceIndex device) override { return behind_.getMemoryFraction(device); }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    behind_.setMemoryFraction(fraction, device);
  }
  std::vector<allocator::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
    return behind_.getExpandableSegmentSizes(device);
  }
  void enable(bool value) override { behind_.enable(value); }
  bool isEnabled() const override { return behind_.isEnabled(); }
  void cacheInfo(DeviceIndex device, std::size_t* largest) override { behind_.cacheInfo(device, largest); }
  void* getBaseAllocation(void* pointer, std::size_t* size) override {
    return behind_.getBaseAllocation(pointer, size);
  }
  void recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) override {
    behind_.recordStream(pointer, stream);
  }
  allocator::SnapshotInfo snapshot(MempoolId_t pool, bool traces) override {
    return behind_.snapshot(pool, traces);
  }
  void beginAllocateToPool(DeviceIndex device, MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    behind_.beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
    behind_.endAllocateToPool(device, pool);
  }
  void releasePool(DeviceIndex device, MempoolId_t pool) override { behind_.releasePool(device, pool); }
  int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override {
    return behind_.getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(DeviceIndex device, MempoolId_t pool, std::shared_ptr<CUDAAllocator> own) override {
    behind_.createOrIncrefPool(device, pool, std::move(own));
  }
  void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use) override {
    behind_.setUseOnOOM(device, pool, use);
  }
  void setNoSplit(DeviceIndex device, MempoolId_t pool) override { behind_.setNoSplit(device, pool); }
  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override {
    return behind_.checkPoolLiveAllocations(device, pool, expected);
  }
  allocator::ShareableHandle shareIpcHandle(void* pointer) override {
    return behind_.shareIpcHandle(pointer);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return behind_.getIpcDevPtr(std::move(handle));
  }
  bool isHistoryEnabled() override { return behind_.isHistoryEnabled(); }
  void recordHistory(bool enabled, allocator::CreateContextFn recorder, std::size_t most,
                     allocator::RecordContext when, bool clear,
                     const std::vector<std::string>& skip) override {
    behind_.recordHistory(enabled, recorder, most, when, clear, skip);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& annotation) override {
    behind_.recordAnnotation(annotation);
  }
  void pushCompileContext(std::string& context) override { behind_.pushCompileContext(context); }
  void popCompileContext() override { behind_.popCompileContext(); }
  void setUserMetadata(const std::string& metadata) override { behind_.setUserMetadata(metadata); }
  std::string getUserMetadata() override { return behind_.getUserMetadata(); }
  void attachOutOfMemoryObserver(allocator::OutOfMemoryObserver observer) override {
    behind_.attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(allocator::AllocatorTraceTracker tracker) override {
    behind_.attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(DeviceIndex device, DeviceIndex other) override {
    behind_.enablePeerAccess(device, other);
  }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                          cudaStream_t stream, bool peers) override {
    return behind_.memcpyAsync(to, to_device, from, from_device, bytes, stream, peers);
  }
  std::shared_ptr<allocator::AllocatorState> getCheckpointState(DeviceIndex device,
                                                                MempoolId_t pool) override {
    return behind_.getCheckpointState(device, pool);
  }
  allocator::CheckpointDelta setCheckpointPoolState(
      DeviceIndex device, std::shared_ptr<allocator::AllocatorState> state) override {
    return behind_.setCheckpointPoolState(device, std::move(state));
  }
  std::string name() override { return behind_.name(); }

 private:
  allocator::CUDAAllocator& behind_;
};

}  // namespace

void install_placing_allocator() {
  // Never destroyed: tensors may outlive any owner.
  static auto* const placing = new PlacingAllocator(*allocator::get());
  allocator::allocator.store(placing);
}

ResultPlacement::ResultPlacement(std::span<const PlacedResult> results) : results_(results) {
  RONDO_ASSERT(placement == nullptr, "placements do not nest");
  placement = this;
}

ResultPlacement::~ResultPlacement() { placement = nullptr; }

}  // namespace rondo::cuda

#include "compiler/execute/host_transfers.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

#include "support/error.h"

namespace rondo {
namespace {

bool copies_asynchronously(const std::shared_ptr<ReplayMemory>& memory) {
  return memory && memory->device().device().is_cuda();
}

at::Tensor pinned_like(const at::Tensor& tensor, ReplayMemory& memory) {
  return at::from_blob(memory.device().reserve_on_host(tensor.nbytes()), tensor.sizes(),
                       at::TensorOptions().dtype(tensor.scalar_type()));
}

}  // namespace

std::vector<at::Tensor> StagedBatches::stage(const std::vector<at::Tensor>& batch) {
  if (!copies_asynchronously(memory_)) return batch;
  if (sets_[0].empty())
    for (std::vector<at::Tensor>& set : sets_)
      for (const at::Tensor& tensor : batch) set.push_back(pinned_like(tensor, *memory_));
  const std::vector<at::Tensor>& set = sets_[next_++ % sets_.size()];
  for (std::size_t i = 0; i < set.size(); ++i) set[i].copy_(batch[i]);
  return set;
}

struct DeferredReadback::Slot {
  void* pinned = nullptr;            // kMaxBytes, where the device copies asynchronously
  at::Tensor numbers;                // on the host
  std::optional<c10::Event> copied;  // where the device copies asynchronously
};

DeferredReadback::DeferredReadback(std::shared_ptr<ReplayMemory> memory, std::size_t under_way)
    : slots_(under_way) {
  if (copies_asynchronously(memory))
    for (Slot& slot : slots_) slot.pinned = memory->device().reserve_on_host(kMaxBytes);
}

DeferredReadback::~DeferredReadback() {
  try {
    while (read_ < enqueued_) read();
  } catch (const std::exception&) {
    // The device has failed, which is reported elsewhere, and writes no more.
  }
}

void DeferredReadback::enqueue(const at::Tensor& numbers) {
  RONDO_ASSERT(enqueued_ - read_ < slots_.size(), "more readbacks are enqueued than there are slots");
  Slot& slot = slots_[enqueued_ % slots_.size()];
  if (slot.pinned != nullptr) {
    RONDO_ASSERT(numbers.nbytes() <= kMaxBytes, "a readback is larger than its slot");
    if (!slot.copied) slot.copied.emplace(c10::kCUDA);
    slot.numbers =
        at::from_blob(slot.pinned, numbers.sizes(), at::TensorOptions().dtype(numbers.scalar_type()));
    slot.numbers.copy_(numbers, /*non_blocking=*/true);
    slot.copied->record(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(numbers.device()));
  } else {
    slot.numbers = numbers.cpu();
  }
  ++enqueued_;
}

at::Tensor DeferredReadback::read() {
  RONDO_ASSERT(read_ < enqueued_, "no readback is enqueued");
  Slot& slot = slots_[read_ % slots_.size()];
  if (slot.copied) slot.copied->synchronize();
  ++read_;
  return slot.numbers;
}

}  // namespace rondo

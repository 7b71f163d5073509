// Transfers between a step and the host that overlap compute: batches that the device copies
// asynchronously, and deferred readback of numbers. Where CUDA replays, both use pinned memory;
// elsewhere a copy is complete when its call returns.
//
// Memory is allocated by the constructor or at the first use, so that later recordings contain no
// allocation. Not thread-safe.
// allocation. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "compiler/execute/replay.h"

namespace rondo {

class StagedBatches {
 public:
  // Stages batches for replays with `memory` (nullptr without replays), at most `under_way` of them
  // at a time.
  StagedBatches(std::shared_ptr<ReplayMemory> memory, std::size_t under_way)
      : memory_(std::move(memory)), sets_(under_way) {}

  // Returns the batch in tensors that stay valid until `under_way` more batches are staged.
  // REQUIRES: the same shapes and dtypes in every call.
  std::vector<at::Tensor> stage(const std::vector<at::Tensor>& batch);

 private:
  std::shared_ptr<ReplayMemory> memory_;
  std::vector<std::vector<at::Tensor>> sets_;
  std::size_t next_ = 0;
};

// A queue of numbers that the device sends to the host.
class DeferredReadback {
 public:
  static constexpr std::size_t kMaxBytes = 1 << 20;  // of a slot: 256 experts, 1,000 layers
  // `memory` is as above; `under_way` is the number of slots.
  DeferredReadback(std::shared_ptr<ReplayMemory> memory, std::size_t under_way);
  ~DeferredReadback();  // waits for unread slots
  DeferredReadback(const DeferredReadback&) = delete;
  DeferredReadback& operator=(const DeferredReadback&) = delete;

  // Enqueues a copy after the work issued so far. REQUIRES: the same shape and dtype in every call.
  void enqueue(const at::Tensor& numbers);
  // Returns the oldest unread numbers, on the host; they stay valid until `under_way` more are
  // enqueued. Waits for their copy only.
  at::Tensor read();

 private:
  struct Slot;
  std::vector<Slot> slots_;
  std::size_t enqueued_ = 0, read_ = 0;
};

}  // namespace rondo

// What a step takes from the host and gives to it while the device goes on computing: batches that the device
// fetches by itself, and numbers that are read later than they are asked for. Where CUDA replays, both lie in
// pinned memory of its; elsewhere a copy is done when it is called.
//
// Memory is taken by the constructor, or at the first use, so that a recording that comes later meets no
// allocation. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "compiler/execute/replay.h"

namespace rondo {

class StagedBatches {
 public:
  // For batches that replays with `memory` (nullptr: there are none) fetch, `under_way` of them at a time at
  // most.
  StagedBatches(std::shared_ptr<ReplayMemory> memory, std::size_t under_way)
      : memory_(std::move(memory)), sets_(under_way) {}

  // The batch, in tensors that stand until `under_way` more batches have come. REQUIRES: the same shapes and
  // dtypes, always.
  std::vector<at::Tensor> stage(const std::vector<at::Tensor>& batch);

 private:
  std::shared_ptr<ReplayMemory> memory_;
  std::vector<std::vector<at::Tensor>> sets_;
  std::size_t next_ = 0;
};

// A queue of questions to the device.
class DeferredReadback {
 public:
  static constexpr std::size_t kMostBytes = 1 << 20;  // of one answer: counts of 256 experts in 1,000 layers
  // `memory`, `under_way`: as above.
  DeferredReadback(std::shared_ptr<ReplayMemory> memory, std::size_t under_way);
  ~DeferredReadback();  // waits for what was not read
  DeferredReadback(const DeferredReadback&) = delete;
  DeferredReadback& operator=(const DeferredReadback&) = delete;

  // Copies them when the device has done what was issued so far. REQUIRES: the same shape and dtype, always.
  void enqueue(const at::Tensor& numbers);
  // The oldest that were asked for and not read, on the host; they stand until `under_way` more are asked
  // for. Waits for their copy and for nothing behind it.
  at::Tensor read();

 private:
  struct Slot;
  std::vector<Slot> slots_;
  std::size_t enqueued_ = 0, read_ = 0;
};

}  // namespace rondo

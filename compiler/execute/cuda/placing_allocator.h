// LibTorch's CUDA allocator, with planned addresses handed out first: what cpu_memory.h, Note [Placing results], is on
// the CPU. Everything but a placed result comes from the allocator behind it.
#pragma once

#include <cstdint>
#include <span>

#include "compiler/execute/cpu_memory.h"

namespace rondo::cuda {

// Once, before the first tensor on a CUDA device.
void install_placing_allocator();

// While alive, requests of this thread for exactly the bytes of a result that is still unplaced get its address. At
// most one a thread.
class Placement {
 public:
  explicit Placement(std::span<const cpu_memory::PlacedResult> results);
  ~Placement();
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  // nullptr: take it from the allocator behind.
  void* take(std::size_t bytes);

 private:
  std::span<const cpu_memory::PlacedResult> results_;
  std::uint64_t taken_ = 0;  // bit i: result i has its memory (the first 64 results)
};

}  // namespace rondo::cuda

// LibTorch's CUDA allocator, with planned addresses handed out first: what cpu_memory.h, Note [Placing
// results], is on the CPU. Everything but a placed result comes from the allocator behind it.
#pragma once

#include <cstddef>
#include <span>

#include "compiler/execute/placed_results.h"

namespace rondo::cuda {

// Once, before the first tensor on a CUDA device.
void install_placing_allocator();

// While alive, requests of this thread for exactly the bytes of a result that is still unplaced get its
// address. At most one a thread.
class ResultPlacement {
 public:
  explicit ResultPlacement(std::span<const PlacedResult> results);
  ~ResultPlacement();
  ResultPlacement(const ResultPlacement&) = delete;
  ResultPlacement& operator=(const ResultPlacement&) = delete;

  // nullptr: take it from the allocator behind.
  void* take(std::size_t bytes) { return results_.take(bytes); }

 private:
  UnplacedResults results_;
};

}  // namespace rondo::cuda

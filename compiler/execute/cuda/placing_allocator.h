// LibTorch's CUDA allocator with placed results (placed_results.h, Note [Placing results]). All
// other requests go to the wrapped allocator.
#pragma once

#include <cstddef>
#include <span>

#include "compiler/execute/placed_results.h"

namespace rondo::cuda {

// Installs the allocator. Call once, before the first tensor on a CUDA device.
void install_placing_allocator();

// During its lifetime, requests of this thread for exactly the bytes of an unplaced result get its
// address. At most one a thread.
class ResultPlacement {
 public:
  explicit ResultPlacement(std::span<const PlacedResult> results);
  ~ResultPlacement();
  ResultPlacement(const ResultPlacement&) = delete;
  ResultPlacement& operator=(const ResultPlacement&) = delete;

  // Returns nullptr for a request that the wrapped allocator must serve.
  void* take(std::size_t bytes) { return results_.take(bytes); }

 private:
  UnplacedResults results_;
};

}  // namespace rondo::cuda

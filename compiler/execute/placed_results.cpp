#include "compiler/execute/placed_results.h"

#include <algorithm>
#include <bit>

namespace rondo {

void* UnplacedResults::take(std::size_t bytes) {
  for (std::size_t i = 0; i < std::min<std::size_t>(results_.size() - first_, 64); ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    const PlacedResult& result = results_[first_ + i];
    if ((taken_ & bit) != 0 || result.bytes != bytes) continue;
    taken_ |= bit;
    const auto placed = static_cast<std::size_t>(std::countr_one(taken_));
    first_ += placed;
    taken_ = placed == 64 ? 0 : taken_ >> placed;
    return result.address;
  }
  return nullptr;
}

}  // namespace rondo

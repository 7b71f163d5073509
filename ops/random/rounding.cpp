#include "ops/random/rounding.h"

#include <string>

#include "support/error.h"

namespace rondo {

void check_rounding(const char* op, at::IntArrayRef rounding, std::size_t tensors) {
  if (rounding.empty()) return;
  RONDO_ASSERT(rounding.size() == tensors * RoundingDraws::kInts,
               std::string(op) + ": rounding has five integers for each tensor, or none");
  for (std::size_t k = 0; k < tensors; ++k) {
    const RoundingDraws draws = rounding_draws(rounding, k);
    RONDO_ASSERT(draws.first >= 0 && draws.row > 0 && draws.pitch > 0 && draws.begin >= 0,
                 std::string(op) + ": rounding has rows of at least one element, and no index below 0");
  }
}

RoundingDraws rounding_draws(at::IntArrayRef rounding, std::size_t tensor) {
  const auto its = rounding.slice(tensor * RoundingDraws::kInts, RoundingDraws::kInts);
  return {its[0], its[1], its[2], its[3], its[4]};
}

}  // namespace rondo

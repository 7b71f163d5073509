#pragma once

#include <cstdint>
#include <vector>

#include "ops/random/stochastic_rounding.h"

namespace rondo {

// Appends the draws of one more tensor to an argument `rounding`.
inline void append_draws(std::vector<std::int64_t>& rounding, const RoundingDraws& draws) {
  rounding.insert(rounding.end(), {draws.stream, draws.first, draws.row, draws.pitch, draws.begin});
}

}  // namespace rondo

// Sampling of the next token from the model's logits: on the host in fp64, so a seed gives the same
// text whenever the logits have the same bits.
#pragma once

#include <cstdint>
#include <span>

namespace rondo {

// Options of sampling, applied in this order, as in transformers.
struct Sampling {
  double temperature = 0;  // 0: the likeliest token; ties go to the first
  // Keeps the k likeliest tokens; ties go to the first. 0: all. transformers also keeps ties of the
  // last one.
  std::int64_t top_k = 0;
  // Keeps the fewest likeliest of these with total probability top_p (Holtzman et al., 2020).
  double top_p = 1;
  std::uint64_t seed = 42;
};

// Returns an index into `logits`. `number`: tokens chosen before; seed and number determine the
// draw. REQUIRES: `logits` is not empty. Throws Error(numerics) for logits that are not finite.
std::int64_t choose_token(std::span<const float> logits, const Sampling& sampling, std::int64_t number);

}  // namespace rondo

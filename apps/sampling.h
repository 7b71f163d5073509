// How the next token of a text is chosen from the model's logits: by the host, in fp64, so that a seed gives
// the same text wherever the logits have the same bits.
#pragma once

#include <cstdint>
#include <span>

namespace rondo {

struct Sampling {
  double temperature = 0;  // 0: the likeliest token, of equal ones the first
  double top_p =
      1;  // of the fewest likeliest tokens whose probabilities come to this (Holtzman et al., 2020)
  std::uint64_t seed = 42;
};

// An index into `logits`, which are not empty. `number`: how many tokens were chosen before; seed and number
// decide the draw. Throws Error(numerics) for logits that are not finite.
std::int64_t choose_token(std::span<const float> logits, const Sampling& sampling, std::int64_t number);

}  // namespace rondo

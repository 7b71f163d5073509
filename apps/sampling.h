// How the next token of a text is chosen from the model's logits: by the host, in fp64, so that a seed gives
// the same text wherever the logits have the same bits.
#pragma once

#include <cstdint>
#include <span>

namespace rondo {

// How a token is drawn; in this order, which is that of transformers.
struct Sampling {
  double temperature = 0;  // 0: the likeliest token, of equal ones the first
  // Keeps so many of the likeliest tokens, of equal ones the first; 0: all. transformers keeps more where the
  // last of them has equals.
  std::int64_t top_k = 0;
  // Keeps of these the fewest likeliest whose probabilities among them come to this (Holtzman et al., 2020).
  double top_p = 1;
  std::uint64_t seed = 42;
};

// An index into `logits`, which are not empty. `number`: how many tokens were chosen before; seed and number
// decide the draw. Throws Error(numerics) for logits that are not finite.
std::int64_t choose_token(std::span<const float> logits, const Sampling& sampling, std::int64_t number);

}  // namespace rondo

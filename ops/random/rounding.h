// The argument `rounding` of ops, and the rounding of runs of elements on the CPU. The bits of
// stochastic rounding are those of ops/random/stochastic_rounding.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "ops/kernel/element.h"
#include "ops/kernel/tensor_chunks.h"
#include "ops/random/stochastic_rounding.h"

namespace rondo {

// Requires that `rounding` has the members of RoundingDraws for each tensor, in their order, or is
// empty. Throws Error(internal) that names the op.
void check_rounding(const char* op, at::IntArrayRef rounding, std::size_t tensors);
// Returns the draws of a tensor. REQUIRES: checked, and not empty.
RoundingDraws rounding_draws(at::IntArrayRef rounding, std::size_t tensor);

struct ToNearest {
  // Returns element i of a run in its type. `kind` is that of RoundingDraws::words.
  template <class T>
  T round(std::uint32_t, std::int64_t, SumOf<T> x) const {
    return static_cast<T>(x);
  }
};

// The draws of neighbours.
struct Stochastic {
  static constexpr std::size_t kKinds = 3;
  const std::uint16_t* draws[kKinds] = {};

  template <class T>
  T round(std::uint32_t kind, std::int64_t i, SumOf<T> x) const {
    if constexpr (std::is_same_v<T, at::BFloat16>)
      return {stochastic_bf16(x, draws[kind][i]), at::BFloat16::from_bits()};
    else
      return x;
  }
};

constexpr std::int64_t kDrawnBlock = 512;  // elements whose draws are in memory at a time

// Sets `out` to the draws of `groups` groups from `group` on, at most those of a block.
inline void draw_groups(const RoundingDraws& draws, std::uint32_t step, std::uint32_t kind,
                        std::int64_t group, std::int64_t groups, std::uint16_t* out) {
  static_assert(std::endian::native == std::endian::little, "draw_of takes the low half of a word first");
  std::uint32_t words[kDrawnBlock / 2 + 4];
  for (std::int64_t g = 0; g < groups; ++g) {
    const PhiloxWords four = draws.words(group + g, step, kind);
    for (int k = 0; k < 4; ++k) words[4 * g + k] = four.at[k];
  }
  std::memcpy(out, words, static_cast<std::size_t>(groups) * kDrawGroup * sizeof *out);
}

// Calls walk(part, rounding) for all of a run, at once or in blocks of neighbours whose draws are
// computed in a loop of their own. The run is the chunk of its tensor. `Rounded` is bf16 if it
// overwrites values in bf16, which are of these kinds.
template <class Rounded, class Run, class Walk>
void walk_rounded(const Run& run, const TensorChunk& chunk, at::IntArrayRef rounding, float step,
                  std::span<const std::uint32_t> kinds, const Walk& walk) {
  if constexpr (std::is_same_v<Rounded, at::BFloat16>)
    if (!rounding.empty())
      return with_best_vectors([&] {
        const RoundingDraws draws = rounding_draws(rounding, chunk.tensor);
        std::uint16_t bits[Stochastic::kKinds][kDrawnBlock + kDrawGroup];
        for (std::int64_t i = 0, count; i < chunk.count; i += count) {
          const std::int64_t index = draws.index(chunk.first + i), ahead = index % kDrawGroup;
          count = std::min({kDrawnBlock, chunk.count - i, draws.neighbors(chunk.first + i)});
          const std::int64_t groups = (ahead + count + kDrawGroup - 1) / kDrawGroup;
          Stochastic of_block;
          for (const std::uint32_t kind : kinds) {
            draw_groups(draws, static_cast<std::uint32_t>(step), kind, index / kDrawGroup, groups,
                        bits[kind]);
            of_block.draws[kind] = bits[kind] + ahead;
          }
          walk(run.part(i, count), of_block);
        }
      });
  with_best_vectors([&] { walk(run, ToNearest()); });
}

}  // namespace rondo

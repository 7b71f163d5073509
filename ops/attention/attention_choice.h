// Which kernel computes attention on a CUDA device: a function of shapes, types and the device alone, so that
// a forward and its backward, and every run of a graph, choose alike.
//
// In this order, the first that can:
//   cudnn      bf16, causal and no other mask. Not under debug.deterministic: its backward adds atomically.
//   flash      bf16, heads of up to 256 elements in multiples of 8, keys as wide as values. Windows are
//              arguments of it. Documents and chunks are its sequences: values are widened there where they
//              are narrower, and short documents go to `direct`. Queries of a row that are one or two runs of
//              neighbours are calls of it.
//   efficient  bf16 and fp32 of any width, causal and no other mask.
//   direct     ours: fp32, bf16 and fp64 of up to 512 elements, any mask, queries and keys at any positions.
//   A warp a row of scores: for
//              comparisons and short documents, many times slower than the others on long ones.
//
// Sinks are an epilogue of any of them. `compile.attention` names one kernel for all cases; a case that this
// one cannot compute is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ops/attention/attention_mask.h"

namespace rondo {

enum class AttentionKernel : std::uint8_t { cudnn, flash, efficient, direct };

// Documents with fewer tokens than this are not flash's: 128, and more where so many rows of so many tokens
// might else have more sequences than a launch takes (Note [Short documents] in attention_library.cpp).
constexpr std::int64_t short_document(std::int64_t rows, std::int64_t tokens) {
  constexpr std::int64_t kShort = 128, kMostSequences = 65535;
  const std::int64_t room = kMostSequences - 2 * rows;  // a row begins a sequence, and ends one
  if (room <= 0) return tokens + 1;
  const std::int64_t least = (2 * rows * tokens + room - 1) / room;
  return least < kShort ? kShort : least;
}

struct AttentionCase {
  enum class Type : std::uint8_t { bf16, fp32, fp64 };
  Type type = Type::bf16;
  std::int64_t width = 0;        // elements of a head's query and key
  std::int64_t value_width = 0;  // and of its value
  std::int64_t tokens = 0;       // of a row of the batch
  bool documents = false;
  bool positions = false;       // queries or keys say where they stand
  std::int64_t query_runs = 0;  // of queries that do, where keys do not: AttentionOperands::query_runs
  AttentionMask mask = {};      // effective_mask()
  bool deterministic = false;   // debug.deterministic
  int capability_major = 9;     // of the device
  std::int64_t cudnn = 91000;   // version, as cuDNN counts them: 9.10.2 is 91002; 0: none
  std::optional<AttentionKernel> requested = {};  // std::nullopt: the first that can

  bool operator==(const AttentionCase&) const = default;
};

// Throws Error(config) where the requested kernel cannot, or none can: heads of more than 512 elements, in
// fp64 or with a mask that is not causal alone.
AttentionKernel choose_attention(const AttentionCase& c);

// Sets the kernel of all later calls of rondo::attention on CUDA in this process; std::nullopt, as at the
// start: the first that can. A forward and its backward must be called under the same setting.
void set_attention_kernel(std::optional<AttentionKernel> kernel);
std::optional<AttentionKernel> requested_attention_kernel();

// The kernel of a value of `compile.attention`; std::nullopt for "auto". REQUIRES: a value that is allowed.
std::optional<AttentionKernel> attention_kernel_of(std::string_view setting);

// For the log: "attention: flash (cuDNN's is not deterministic)".
std::string attention_kernel_in_words(const AttentionCase& c);

}  // namespace rondo

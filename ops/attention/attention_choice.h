// Chooses the kernel of attention on a CUDA device from shapes, types and the device alone. So a
// forward and its backward, and every run of a graph, choose the same kernel.
//
// The first kernel that supports the case, in this order:
//
//   cudnn      bf16, causal. Not with debug.deterministic, because its backward adds atomically.
//              Documents, chunks and windows on Hopper, in a build with nvidia-cudnn-frontend;
//              short documents go to `direct`.
//   flash      bf16, heads of up to 256 elements in multiples of 8, keys as wide as values. Windows
//              are arguments. Documents and chunks are sequences: narrower values are widened, and
//              short documents go to `direct`. Rows whose queries form one or two runs take one
//              call per run.
//   efficient  bf16 and fp32 of any width, causal without any other mask.
//   direct     Rondo's own: fp32, bf16 and fp64 of up to 512 elements, any mask, queries and keys
//              at any positions. A warp computes a row of scores. For comparisons and short
//              documents; many times slower than the others on long documents.
//
// Sinks are an epilogue of any of them. `compile.attention` selects one kernel for all cases; a
// case that it does not support is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ops/attention/attention_mask.h"
#include "support/enum_names.h"

namespace rondo {

enum class AttentionKernel : std::uint8_t { cudnn, flash, efficient, direct };
template <>
inline constexpr auto kNamesOf<AttentionKernel> = std::to_array<std::string_view>({"cudnn", "flash",
                                                                                   "efficient", "direct"});

// Returns the length below which a document is too short for flash. It is 128, or more if rows and
// tokens allow more sequences than a launch takes (Note [Short documents] in
// attention_library.cpp).
constexpr std::int64_t short_document(std::int64_t rows, std::int64_t tokens) {
  constexpr std::int64_t kShort = 128, kMaxSequences = 65535;
  const std::int64_t room = kMaxSequences - 2 * rows;  // a row begins a sequence, and ends one
  if (room <= 0) return tokens + 1;
  const std::int64_t least = (2 * rows * tokens + room - 1) / room;
  return least < kShort ? kShort : least;
}

// Returns whether a kernel takes documents as sequences, and leaves the short ones to `direct`.
constexpr bool leaves_short_documents(AttentionKernel kernel) {
  return kernel == AttentionKernel::cudnn || kernel == AttentionKernel::flash;
}

struct AttentionCase {
  enum class Type : std::uint8_t { bf16, fp32, fp64 };
  Type type = Type::bf16;
  std::int64_t width = 0;        // elements of a head's query and key
  std::int64_t value_width = 0;  // elements of a head's value
  std::int64_t tokens = 0;       // of a row of the batch
  bool documents = false;
  bool positions = false;       // queries or keys have explicit positions
  std::int64_t query_runs = 0;  // AttentionOperands::query_runs if only queries have positions
  AttentionMask mask = {};      // effective_mask()
  bool deterministic = false;   // debug.deterministic
  int capability_major = 9;     // of the device
  std::int64_t cudnn = 91000;   // version in cuDNN's encoding: 9.10.2 is 91002; 0: no cuDNN
  bool cudnn_graphs = false;    // has_cudnn_graphs()
  std::optional<AttentionKernel> requested = {};  // std::nullopt: the first that supports the case

  bool operator==(const AttentionCase&) const = default;
};

// Throws Error(config) if the requested kernel does not support the case, or if none does: heads of
// more than 512 elements, in fp64 or with a mask other than plain causal.
AttentionKernel choose_attention(const AttentionCase& c);

// Sets the kernel of all later calls of rondo::attention on CUDA in this process. std::nullopt, the
// default: the first that supports the case. A forward and its backward must use the same setting.
void set_attention_kernel(std::optional<AttentionKernel> kernel);
std::optional<AttentionKernel> requested_attention_kernel();

// Describes the choice for the log: "attention: flash (cuDNN is not deterministic)".
std::string attention_kernel_in_words(const AttentionCase& c);

}  // namespace rondo

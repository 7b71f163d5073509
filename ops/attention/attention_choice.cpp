// Each kernel has one function that returns why it does not support a case, or "". The choice and
// the log message use the same functions, so they cannot disagree. The limits for cuDNN repeat
// LibTorch's own checks for training without dropout, so that LibTorch does not refuse a choice
// made here. Efficient attention gets no documents, because it would store a row of scores for each
// of them.
#include "ops/attention/attention_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "support/error.h"

namespace rondo {
namespace {

using Type = AttentionCase::Type;

constexpr std::int64_t kMaxDirectWidth = 512, kMaxFlashWidth = 256;
constexpr std::int64_t kTestedForGraphs = 91900;  // the oldest cuDNN that our graphs have run with

std::int64_t widest(const AttentionCase& c) { return std::max(c.width, c.value_width); }
bool has_sequences(const AttentionCase& c) { return c.documents || c.mask.chunk > 0 || c.positions; }
// Returns what of the mask cuDNN and efficient attention do not support; "" for causal rows.
const char* beyond_causal(const AttentionCase& c) {
  if (c.positions) return "positions";
  if (c.documents) return "documents";
  if (c.mask.chunk > 0) return "chunks";
  return c.mask == AttentionMask{} ? "" : c.mask.left >= 0 ? "windows" : "tokens that see later ones";
}
bool multiples_of_8(const AttentionCase& c) { return c.width % 8 == 0 && c.value_width % 8 == 0; }

// LibTorch's condition for cuDNN, for training without dropout.
std::int64_t widest_for_cudnn(const AttentionCase& c) {
  if (c.capability_major == 9 && c.cudnn >= 91000) return 256;
  if (c.capability_major == 10 && c.cudnn >= 91100 && c.width == 192 && c.value_width == 128) return 192;
  return 128;
}

// Why cuDNN does not support a mask beyond causal rows.
std::string cudnn_graph_objection(const AttentionCase& c) {
  const std::string mask = beyond_causal(c);
  if (c.mask.right != 0) return "cuDNN does not support tokens that see later ones";
  if (!c.cudnn_graphs) return "cuDNN does not support " + mask + " without nvidia-cudnn-frontend";
  if (c.cudnn < kTestedForGraphs || c.capability_major != 9)
    return fmt::format("{} require cuDNN 9.19 and compute capability 9.0", mask);
  if (c.positions && c.query_runs == 0) return "cuDNN requires queries in runs of consecutive positions";
  if (has_sequences(c) && (c.width % 16 != 0 || c.value_width % 16 != 0))
    return "cuDNN requires heads in multiples of 16 elements for " + mask;
  return "";
}

// Each function returns why its kernel does not support the case, or "".
std::string cudnn_objection(const AttentionCase& c) {
  if (c.type != Type::bf16) return "cuDNN requires bf16";
  if (*beyond_causal(c))
    if (std::string why = cudnn_graph_objection(c); !why.empty()) return why;
  if (c.deterministic) return "cuDNN is not deterministic";
  if (c.cudnn < 90000) return c.cudnn == 0 ? "there is no cuDNN" : "cuDNN is older than 9.0";
  if (c.capability_major < 8) return "cuDNN requires compute capability 8.0";
  if (c.tokens < 2 || !multiples_of_8(c) || widest(c) > widest_for_cudnn(c))
    return fmt::format("cuDNN does not support heads of {} and {} elements", c.width, c.value_width);
  return "";
}
std::string flash_objection(const AttentionCase& c) {
  if (c.type != Type::bf16) return "flash requires bf16";
  if (c.capability_major < 8) return "flash requires compute capability 8.0";
  if (c.tokens < 2) return "a row has one token";
  if (c.positions && c.mask.right != 0)
    return "flash does not support positions with tokens that see later ones";
  if (c.positions && c.query_runs == 0) return "flash requires queries in runs of consecutive positions";
  if (!multiples_of_8(c) || widest(c) > kMaxFlashWidth || (c.width != c.value_width && !has_sequences(c)))
    return fmt::format("flash does not support heads of {} and {} elements", c.width, c.value_width);
  return "";
}
std::string efficient_objection(const AttentionCase& c) {
  if (c.type == Type::fp64) return "efficient does not support fp64";
  if (c.positions) return "efficient does not support positions";
  if (has_sequences(c)) return "efficient would store a row of scores for each document";
  if (c.mask != AttentionMask{}) return "efficient does not support windows";
  if (c.width % 4 != 0 || c.value_width % 4 != 0)
    return "efficient requires heads in multiples of 4 elements";
  return "";
}

std::string direct_objection(const AttentionCase& c) {
  if (widest(c) <= kMaxDirectWidth) return "";
  return fmt::format("direct supports heads of at most {} elements", kMaxDirectWidth);
}

struct Choice {
  AttentionKernel kernel;
  std::string objection_to_previous;  // why not the previous kernel in the order
};

std::string objection(AttentionKernel kernel, const AttentionCase& c) {
  switch (kernel) {
    case AttentionKernel::cudnn:
      return cudnn_objection(c);
    case AttentionKernel::flash:
      return flash_objection(c);
    case AttentionKernel::efficient:
      return efficient_objection(c);
    case AttentionKernel::direct:
      return direct_objection(c);
  }
  return "";
}

std::atomic<std::optional<AttentionKernel>> requested;

Choice requested_choice(AttentionKernel kernel, const AttentionCase& c) {
  const std::string why = objection(kernel, c);
  if (!why.empty())
    throw Error(
        ExitCode::config,
        fmt::format(
            "compile.attention = \"{}\": {}; \"auto\" selects the first kernel that supports the case",
            name_of(kernel), why));
  return {kernel, "compile.attention"};
}

Choice choice(const AttentionCase& c) {
  if (c.requested) return requested_choice(*c.requested, c);
  std::string why = cudnn_objection(c);
  if (why.empty()) return {AttentionKernel::cudnn, ""};
  std::string next = flash_objection(c);
  if (next.empty()) return {AttentionKernel::flash, why};
  why = std::move(next);
  next = efficient_objection(c);
  if (next.empty()) return {AttentionKernel::efficient, why};
  if (widest(c) > kMaxDirectWidth)
    throw Error(
        ExitCode::config,
        fmt::format("no attention kernel on CUDA supports heads of {} and {} elements ({}), at most {}; use "
                    "narrower heads, or turn training.document_attention off with bf16 or fp32",
                    c.width, c.value_width,
                    *beyond_causal(c) ? fmt::format("with {}", beyond_causal(c)) : next, kMaxDirectWidth));
  return {AttentionKernel::direct, next};
}

const char* name(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::cudnn:
      return "cuDNN";
    case AttentionKernel::flash:
      return "flash";
    case AttentionKernel::efficient:
      return "efficient";
    case AttentionKernel::direct:
      return "direct";
  }
  return "";
}

}  // namespace

void set_attention_kernel(std::optional<AttentionKernel> kernel) { requested = kernel; }
std::optional<AttentionKernel> requested_attention_kernel() { return requested; }

AttentionKernel choose_attention(const AttentionCase& c) { return choice(c).kernel; }

std::string attention_kernel_in_words(const AttentionCase& c) {
  const auto [kernel, why] = choice(c);
  std::string words = fmt::format("attention: {}", name(kernel));
  if (leaves_short_documents(kernel) && (c.documents || c.mask.chunk > 0))
    words += fmt::format(", documents of fewer than {} tokens direct", short_document(1, c.tokens));
  if (c.positions && c.query_runs > 0) words += fmt::format(", {} runs of queries", c.query_runs);
  if (c.mask.left >= 0) words += fmt::format(", a window of {} tokens", c.mask.left + c.mask.right + 1);
  if (c.mask.chunk > 0) words += fmt::format(", chunks of {} tokens", c.mask.chunk);
  return why.empty() ? words : fmt::format("{} ({})", words, why);
}

}  // namespace rondo

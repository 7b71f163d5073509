// Each kernel has one function that says why it cannot take a case, "" where it can. The choice and the words
// of the log come from the same functions, so they cannot disagree. The limits for cuDNN repeat LibTorch's
// own checks for training without dropout, so that a choice made here is not refused there. Efficient
// attention has no documents, since it would keep a row of scores for each.
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

constexpr std::int64_t kWidestDirect = 512, kWidestFlash = 256;

std::int64_t widest(const AttentionCase& c) { return std::max(c.width, c.value_width); }
bool has_sequences(const AttentionCase& c) { return c.documents || c.mask.chunk > 0 || c.positions; }
// What cuDNN and efficient attention have no kernel for, "" for causal rows.
const char* beyond_causal(const AttentionCase& c) {
  if (c.positions) return "positions";
  if (c.documents) return "documents";
  if (c.mask.chunk > 0) return "chunks";
  return c.mask == AttentionMask{} ? "" : c.mask.left >= 0 ? "windows" : "tokens that see later ones";
}
bool multiples_of_8(const AttentionCase& c) { return c.width % 8 == 0 && c.value_width % 8 == 0; }

// What LibTorch asks before it calls cuDNN, for training without dropout.
std::int64_t widest_for_cudnn(const AttentionCase& c) {
  if (c.capability_major == 9 && c.cudnn >= 91000) return 256;
  if (c.capability_major == 10 && c.cudnn >= 91100 && c.width == 192 && c.value_width == 128) return 192;
  return 128;
}

// Why a kernel cannot, "" where it can.
std::string against_cudnn(const AttentionCase& c) {
  if (c.type != Type::bf16) return "cuDNN's is for bf16";
  if (const std::string mask = beyond_causal(c); !mask.empty()) return "cuDNN's has no " + mask + " here";
  if (c.deterministic) return "cuDNN's is not deterministic";
  if (c.cudnn < 90000) return c.cudnn == 0 ? "there is no cuDNN" : "cuDNN is older than 9.0";
  if (c.capability_major < 8) return "cuDNN's needs compute capability 8.0";
  if (c.tokens < 2 || !multiples_of_8(c) || widest(c) > widest_for_cudnn(c))
    return fmt::format("cuDNN's has no heads of {} and {} elements", c.width, c.value_width);
  return "";
}
std::string against_flash(const AttentionCase& c) {
  if (c.type != Type::bf16) return "flash is for bf16";
  if (c.capability_major < 8) return "flash needs compute capability 8.0";
  if (c.tokens < 2) return "a row has one token";
  if (c.positions && c.mask.right != 0) return "flash has no positions with tokens that see later ones here";
  if (c.positions && c.query_runs == 0) return "flash has no blocks of queries at any positions";
  if (!multiples_of_8(c) || widest(c) > kWidestFlash || (c.width != c.value_width && !has_sequences(c)))
    return fmt::format("flash has no heads of {} and {} elements", c.width, c.value_width);
  return "";
}
std::string against_efficient(const AttentionCase& c) {
  if (c.type == Type::fp64) return "efficient has no fp64";
  if (c.positions) return "efficient has no positions here";
  if (has_sequences(c)) return "efficient would keep a row of scores a document";
  if (c.mask != AttentionMask{}) return "efficient's has no windows here";
  if (c.width % 4 != 0 || c.value_width % 4 != 0) return "efficient wants heads in multiples of 4 elements";
  return "";
}

std::string against_direct(const AttentionCase& c) {
  if (widest(c) <= kWidestDirect) return "";
  return fmt::format("direct has heads of at most {} elements", kWidestDirect);
}

struct Choice {
  AttentionKernel kernel;
  std::string why_not_before;  // why not the one before it in the order
};

std::string against(AttentionKernel kernel, const AttentionCase& c) {
  switch (kernel) {
    case AttentionKernel::cudnn:
      return against_cudnn(c);
    case AttentionKernel::flash:
      return against_flash(c);
    case AttentionKernel::efficient:
      return against_efficient(c);
    case AttentionKernel::direct:
      return against_direct(c);
  }
  return "";
}

constexpr std::array<std::pair<std::string_view, AttentionKernel>, 4> kSettings{
    {{"cudnn", AttentionKernel::cudnn},
     {"flash", AttentionKernel::flash},
     {"efficient", AttentionKernel::efficient},
     {"direct", AttentionKernel::direct}}};

std::atomic<std::optional<AttentionKernel>> requested;

std::string_view setting_of(AttentionKernel kernel) {
  return std::find_if(kSettings.begin(), kSettings.end(), [&](const auto& s) { return s.second == kernel; })
      ->first;
}

Choice requested_choice(AttentionKernel kernel, const AttentionCase& c) {
  const std::string why = against(kernel, c);
  if (!why.empty())
    throw Error(ExitCode::config,
                fmt::format("compile.attention = \"{}\": {}; \"auto\" takes the first kernel that can",
                            setting_of(kernel), why));
  return {kernel, "compile.attention"};
}

Choice choice(const AttentionCase& c) {
  if (c.requested) return requested_choice(*c.requested, c);
  std::string why = against_cudnn(c);
  if (why.empty()) return {AttentionKernel::cudnn, ""};
  std::string next = against_flash(c);
  if (next.empty()) return {AttentionKernel::flash, why};
  why = std::move(next);
  next = against_efficient(c);
  if (next.empty()) return {AttentionKernel::efficient, why};
  if (widest(c) > kWidestDirect)
    throw Error(
        ExitCode::config,
        fmt::format("no attention kernel on CUDA has heads of {} and {} elements ({}): at most {}; make "
                    "heads narrower, or turn training.document_attention off with bf16 or fp32",
                    c.width, c.value_width,
                    *beyond_causal(c) ? fmt::format("with {}", beyond_causal(c)) : next, kWidestDirect));
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

std::optional<AttentionKernel> attention_kernel_of(std::string_view setting) {
  if (setting == "auto") return std::nullopt;
  const auto* found = std::find_if(kSettings.begin(), kSettings.end(),
                                   [&](const auto& known) { return known.first == setting; });
  RONDO_ASSERT(found != kSettings.end(), "a value of compile.attention that is not allowed");
  return found->second;
}

AttentionKernel choose_attention(const AttentionCase& c) { return choice(c).kernel; }

std::string attention_kernel_in_words(const AttentionCase& c) {
  const auto [kernel, why] = choice(c);
  std::string words = fmt::format("attention: {}", name(kernel));
  if (kernel == AttentionKernel::flash && (c.documents || c.mask.chunk > 0))
    words += fmt::format(", documents of fewer than {} tokens direct", short_document(1, c.tokens));
  if (c.positions && c.query_runs > 0) words += fmt::format(", {} runs of queries", c.query_runs);
  if (c.mask.left >= 0) words += fmt::format(", a window of {} tokens", c.mask.left + c.mask.right + 1);
  if (c.mask.chunk > 0) words += fmt::format(", chunks of {} tokens", c.mask.chunk);
  return why.empty() ? words : fmt::format("{} ({})", words, why);
}

}  // namespace rondo

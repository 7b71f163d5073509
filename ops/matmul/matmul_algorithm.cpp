#include "ops/matmul/matmul_algorithm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

namespace rondo {
namespace {

constexpr std::int64_t kMaxWorkspace = std::int64_t{1} << 30;

// Parses and removes a number at the beginning of `text`, followed by `end`.
template <class Number>
bool take(std::string_view& text, Number& number, int base, std::string_view end) {
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || text.starts_with('-')) return false;
  text.remove_prefix(static_cast<std::size_t>(at - text.data()));
  if (!text.starts_with(end)) return false;
  text.remove_prefix(end.size());
  return true;
}

}  // namespace

std::string to_text(const MatmulAlgorithm& algorithm) {
  return fmt::format("{}:{}:{:x}", algorithm.library, algorithm.workspace_bytes,
                     fmt::join(algorithm.words, "."));
}

std::optional<MatmulAlgorithm> parse_matmul_algorithm(std::string_view text) {
  MatmulAlgorithm read;
  if (!take(text, read.library, 10, ":") || !take(text, read.workspace_bytes, 10, ":")) return std::nullopt;
  if (read.workspace_bytes > kMaxWorkspace) return std::nullopt;
  for (std::size_t i = 0; i < read.words.size(); ++i)
    if (!take(text, read.words[i], 16, i + 1 < read.words.size() ? "." : "")) return std::nullopt;
  return text.empty() ? std::optional(read) : std::nullopt;
}

}  // namespace rondo

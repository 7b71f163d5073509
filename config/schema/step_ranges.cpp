#include "config/schema/step_ranges.h"

#include <fmt/format.h>

#include <optional>

#include "support/text/numbers.h"

namespace rondo {
namespace {

constexpr std::int64_t kMaxStep = 10'000'000'000;  // times a global batch fits 64 bits

}  // namespace

std::vector<StepRange> read_step_ranges(const std::vector<std::string>& entries, std::string* rule) {
  std::vector<StepRange> ranges;
  if (rule != nullptr) rule->clear();
  for (const std::string& entry : entries) {
    const std::string_view text = entry;
    const std::size_t dash = text.find('-');
    const auto first = number_in<std::int64_t>(text.substr(0, dash), 1, kMaxStep);
    const auto last = dash == text.npos
                          ? first
                          : number_in<std::int64_t>(text.substr(dash + 1), first.value_or(1), kMaxStep);
    if (first && last) {
      ranges.push_back({*first, *last});
    } else if (rule != nullptr) {
      *rule = fmt::format("must hold steps like 12000-12040 or 15000, but \"{}\" is none", entry);
    }
  }
  return ranges;
}

}  // namespace rondo

// Expands ranges before it divides an entry into names, so the rest of the program handles only
// names and patterns. Within an entry every range has the same number. Broken rules name the entry.
#include "config/schema/bucket_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "support/text/numbers.h"
#include "support/text/wildcard.h"

namespace rondo {
namespace {

constexpr int kMaxLayers = 100'000;

struct Range {
  std::size_t begin = 0, end = 0;  // of its text, brackets included
  int first = 0, last = 0;
};

// Returns the first range after `from`. Sets `rule` if that range is not closed or is not a range.
std::optional<Range> find_range(const std::string& entry, std::size_t from, std::string& rule) {
  const std::size_t open = entry.find('[', from);
  if (open == std::string::npos) return std::nullopt;
  const std::size_t close = entry.find(']', open), dash = entry.find('-', open);
  const auto number = [&](std::size_t begin, std::size_t end) {
    return number_in(std::string_view(entry).substr(begin, end - begin), 0, kMaxLayers);
  };
  if (close != std::string::npos && dash < close) {
    const auto first = number(open + 1, dash), last = number(dash + 1, close);
    if (first && last && *first <= *last) return Range{open, close + 1, *first, *last};
  }
  rule = fmt::format("must hold ranges like layers.[0-5], but \"{}\" has an invalid one", entry);
  return std::nullopt;
}

// Replaces every range of `entry` by `number`.
std::string with_number(std::string entry, int number) {
  std::string ignored;
  for (std::optional<Range> range; (range = find_range(entry, 0, ignored));)
    entry.replace(range->begin, range->end - range->begin, std::to_string(number));
  return entry;
}

// Expands an entry with a range into one entry per number.
std::vector<std::string> without_ranges(const std::string& entry, std::string& rule) {
  const std::optional<Range> range = find_range(entry, 0, rule);
  if (!range) return {entry};
  for (std::optional<Range> next = range; next; next = find_range(entry, next->end, rule))
    if (next->first != range->first || next->last != range->last)
      rule = fmt::format("must have at most one range per entry, but \"{}\" has two", entry);
  std::vector<std::string> entries;
  if (rule.empty())
    for (int i = range->first; i <= range->last; ++i) entries.push_back(with_number(entry, i));
  return entries;
}

}  // namespace

std::vector<Bucket> read_buckets(const std::vector<std::string>& entries, std::string* rule) {
  std::vector<Bucket> buckets;
  std::string broken;
  for (const std::string& entry : entries)
    for (const std::string& name : without_ranges(entry, broken)) {
      Bucket bucket{name, {}};
      for (std::size_t begin = 0; begin <= name.size();) {
        const std::size_t end = std::min(name.find_first_of("|+", begin), name.size());
        bucket.names.push_back(name.substr(begin, end - begin));
        begin = end + 1;
        if (bucket.names.back().empty())
          broken = fmt::format(
              "must hold names of parameters separated by | or +, but \"{}\" has an empty one", entry);
      }
      buckets.push_back(std::move(bucket));
    }
  if (rule != nullptr) *rule = broken;
  return buckets;
}

std::string bucket_of(const std::vector<Bucket>& buckets, std::string_view parameter,
                      const std::string& of_model) {
  for (const Bucket& bucket : buckets)
    for (const std::string& name : bucket.names)
      if (names_parameter(name, parameter)) return bucket.name;
  return of_model;
}

bool names_parameter(std::string_view name, std::string_view parameter) {
  return matches_wildcard(name, parameter) || matches_wildcard(std::string(name) + ".*", parameter);
}

}  // namespace rondo

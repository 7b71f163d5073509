#include "support/flags/flag_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "support/text/nearest.h"

namespace rondo {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0;;) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    if (end == text.size()) return parts;
    at = end + 1;
  }
}

namespace flag {

std::string range_text(std::int64_t least, std::int64_t most) {
  return most == kNoMost ? fmt::format("from {} on", least) : fmt::format("from {} to {}", least, most);
}
std::string range_text(double least, double most) {
  return most == std::numeric_limits<double>::max() ? fmt::format("from {} on", least)
                                                    : fmt::format("from {} to {}", least, most);
}

ReadValue amount(std::int64_t* target, std::int64_t least, std::int64_t most) {
  return [=](const std::string& value) -> std::string {
    static constexpr std::string_view kLetters = "KMGT";
    std::string_view digits = value;
    std::int64_t factor = 1;
    if (const std::size_t power = digits.empty() ? kLetters.npos : kLetters.find(digits.back());
        power != kLetters.npos) {
      digits.remove_suffix(1);
      for (std::size_t i = 0; i <= power; ++i) factor *= 1000;
    }
    const auto number = number_in<std::int64_t>(digits, 0, most / factor);
    if (!number || *number * factor < least)
      return fmt::format("must be a whole number {}{}", range_text(least, most),
                         most < 1'000'000'000 ? "" : ", such as 8 or 100M");
    *target = *number * factor;
    return "";
  };
}

ReadValue tokens(std::int64_t* target) {
  return [=](const std::string& value) -> std::string {
    constexpr double kMaxExact = 9e15;  // a double holds every whole number up to it
    static constexpr std::string_view kLetters = "KMGTB";
    static constexpr double kFactors[] = {1e3, 1e6, 1e9, 1e12, 1e9};
    std::string_view digits = value;
    double factor = 1;
    if (const std::size_t at = digits.empty() ? kLetters.npos : kLetters.find(digits.back());
        at != kLetters.npos) {
      digits.remove_suffix(1);
      factor = kFactors[at];
    }
    const auto number = number_in<double>(digits, 0, kMaxExact / factor);
    const double count = std::round(number.value_or(0) * factor);
    if (count < 1 || std::abs(count - *number * factor) > 1e-6)
      return "must be a whole number of tokens from 1 to 9000T, such as 100B, 1.5T or 2e9";
    *target = static_cast<std::int64_t>(count);
    return "";
  };
}

ReadValue one_of(std::string* target, const std::vector<std::string>& known) {
  return [=](const std::string& value) -> std::string {
    *target = value;
    if (std::find(known.begin(), known.end(), value) != known.end()) return "";
    return fmt::format("must be {} or {}{}", fmt::join(known.begin(), known.end() - 1, ", "), known.back(),
                       did_you_mean(value, known));
  };
}

ReadValue list(std::vector<std::string>* target) {
  return [target](const std::string& value) -> std::string {
    *target = split(value, ',');
    std::erase(*target, "");
    return "";
  };
}

ReadValue append(std::vector<std::string>* target) {
  return [target](const std::string& value) -> std::string {
    target->push_back(value);
    return "";
  };
}

}  // namespace flag
}  // namespace rondo

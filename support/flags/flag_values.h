// What a flag's value may be, and where it goes. A ReadValue stores the value and returns "", or returns the
// rule that the value breaks, "must be ...". REQUIRES: its target outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/text/numbers.h"

namespace rondo {

using ReadValue = std::function<std::string(const std::string& value)>;

// The parts of "a,b": always at least one, and as many as there are separators and one more.
std::vector<std::string> split(std::string_view text, char separator);

namespace flag {

constexpr std::int64_t kNoMost = std::numeric_limits<std::int64_t>::max();

// "from 1 on", or "from 1 to 8" where there is a most.
std::string range_text(std::int64_t least, std::int64_t most);
std::string range_text(double least, double most);

// A whole number in digits. `Target` takes what is in the range: int, std::optional<int>, ...
template <class Target>
ReadValue whole(Target* target, std::int64_t least, std::int64_t most = kNoMost) {
  return [=](const std::string& value) -> std::string {
    const auto number = number_in<std::int64_t>(value, least, most);
    if (!number) return "must be a whole number " + range_text(least, most);
    *target = *number;
    return "";
  };
}

// A finite number; `kind` is what the rule calls it, such as "seconds".
template <class Target>
ReadValue number(Target* target, double least, double most = std::numeric_limits<double>::max(),
                 const std::string& kind = "a number") {
  return [=](const std::string& value) -> std::string {
    const auto number = number_in<double>(value, least, most);
    if (!number) return "must be " + kind + " " + range_text(least, most);
    *target = *number;
    return "";
  };
}

// A whole number that may end in K, M, G or T, powers of 1000: 100M.
ReadValue amount(std::int64_t* target, std::int64_t least, std::int64_t most = kNoMost);

// Any text but "". `Target` takes a std::string, as a path does.
template <class Target>
ReadValue text(Target* target) {
  return [target](const std::string& value) -> std::string {
    *target = value;
    return value.empty() ? "must not be empty" : "";
  };
}

// REQUIRES: at least two are known.
ReadValue one_of(std::string* target, const std::vector<std::string>& known);

// "a,b"; nothing between the commas is no entry.
ReadValue list(std::vector<std::string>* target);

// Adds each value, for positionals and for flags that may be given again.
ReadValue append(std::vector<std::string>* target);

}  // namespace flag
}  // namespace rondo

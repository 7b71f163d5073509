// Readers of flag values. A ReadValue stores the value and returns "", or returns the broken rule,
// "must be ...". REQUIRES: its target outlives it.
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

// Splits "a,b" at each separator: one part more than separators.
std::vector<std::string> split(std::string_view text, char separator);

namespace flag {

constexpr std::int64_t kNoMost = std::numeric_limits<std::int64_t>::max();

// Returns "from 1 on", or "from 1 to 8" if `most` is given.
std::string range_text(std::int64_t least, std::int64_t most);
std::string range_text(double least, double most);

// Reads a whole number in digits. `Target` holds the range: int, std::optional<int>, ...
template <class Target>
ReadValue whole(Target* target, std::int64_t least, std::int64_t most = kNoMost) {
  return [=](const std::string& value) -> std::string {
    const auto number = number_in<std::int64_t>(value, least, most);
    if (!number) return "must be a whole number " + range_text(least, most);
    *target = *number;
    return "";
  };
}

// Reads a finite number. `kind` is its name in the rule, such as "seconds".
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

// Reads a whole number with an optional suffix K, M, G or T, powers of 1000: 100M.
ReadValue amount(std::int64_t* target, std::int64_t least, std::int64_t most = kNoMost);

// Reads a whole number of tokens: as an amount, with a fraction, an exponent, or B for G, too:
// 1.5T, 100B, 2e9.
ReadValue tokens(std::int64_t* target);

// Reads any text except "". `Target` is assignable from std::string.
template <class Target>
ReadValue text(Target* target) {
  return [target](const std::string& value) -> std::string {
    *target = value;
    return value.empty() ? "must not be empty" : "";
  };
}

// Reads one of the known texts. REQUIRES: `known` has at least two.
ReadValue one_of(std::string* target, const std::vector<std::string>& known);

// Reads "a,b", without empty entries.
ReadValue list(std::vector<std::string>* target);

// Appends each value, for positionals and repeatable flags.
ReadValue append(std::vector<std::string>* target);

}  // namespace flag
}  // namespace rondo

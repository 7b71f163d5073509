// Two levels. Bytes: what a disk, a network or an editor does to a file. Values: JSON is parsed,
// changed and written again, since nearly all changes of its bytes are caught by the first check,
// and nothing behind that would be reached.
#include "tests/attack/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

namespace rondo::attack {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 22> kNumbers = {"0",
                                                       "-1",
                                                       "1",
                                                       "2",
                                                       "64",
                                                       "255",
                                                       "65536",
                                                       "2147483647",
                                                       "2147483648",
                                                       "4294967296",
                                                       "1152921504606846976",
                                                       "9223372036854775807",
                                                       "-9223372036854775808",
                                                       "9223372036854775808",
                                                       "18446744073709551615",
                                                       "99999999999999999999",
                                                       "0.5",
                                                       "-0.0",
                                                       "1e308",
                                                       "1e999",
                                                       "nan",
                                                       "0x7fffffffffffffff"};

// What means something in TOML, JSON, the text of graphs, flags, patterns or paths.
constexpr std::array<std::string_view, 64> kWords = {"=",
                                                     "[",
                                                     "]",
                                                     "[[",
                                                     "{",
                                                     "}",
                                                     "\"",
                                                     "'''",
                                                     ".",
                                                     ",",
                                                     ":",
                                                     "\n",
                                                     "\r\n",
                                                     " ",
                                                     "\t",
                                                     "#",
                                                     "\\",
                                                     "\\u0000",
                                                     "\\ud800",
                                                     "null",
                                                     "true",
                                                     "false",
                                                     "[]",
                                                     "{}",
                                                     "%0",
                                                     "%1",
                                                     "%99",
                                                     " -> ",
                                                     "f32[",
                                                     "i64",
                                                     "host ",
                                                     "wrapped(",
                                                     "views",
                                                     "writes",
                                                     "segment\n",
                                                     "block ",
                                                     "--",
                                                     "no-",
                                                     "training",
                                                     "None",
                                                     "(",
                                                     ")",
                                                     "(?:",
                                                     "*",
                                                     "+",
                                                     "?",
                                                     "|",
                                                     "{1,3}",
                                                     "\\p{L}",
                                                     "\\s",
                                                     "^",
                                                     "$",
                                                     "../",
                                                     "/",
                                                     "[1-9]",
                                                     "(x3)",
                                                     "-",
                                                     "@",
                                                     ";",
                                                     "\xff",
                                                     "\xc0",
                                                     "\xed\xa0\x80",
                                                     "\xf0\x9f\x98\x80",
                                                     std::string_view("\0", 1)};

std::size_t below(std::size_t bound, Random& random) { return bound == 0 ? 0 : random() % bound; }

template <class List>
std::string_view one_of(const List& list, Random& random) {
  return list[below(list.size(), random)];
}

void replace_number(std::string& text, Random& random) {
  const auto is_digit = [&](std::size_t at) {
    return std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  std::size_t begin = below(text.size(), random);
  while (begin < text.size() && !is_digit(begin)) ++begin;
  std::size_t end = begin;
  while (end < text.size() && is_digit(end)) ++end;
  text.replace(begin, end - begin, one_of(kNumbers, random));
}

// A little-endian number of 1, 2, 4 or 8 bytes at the end of its type's range, or near to the
// text's own size.
void overwrite_binary(std::string& text, Random& random) {
  const std::size_t width = std::size_t{1} << random() % 4;
  if (text.size() < width) return;
  std::size_t at = below(text.size() - width + 1, random);
  if (random() % 2 == 0) at -= at % width;
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max() >> (64 - 8 * width);
  const std::uint64_t values[] = {0, 1, most, most / 2, most / 2 + 1, text.size(), random() % 256};
  const std::uint64_t value = values[random() % std::size(values)];
  std::memcpy(text.data() + at, &value, width);
}

void repeat_block(std::string& text, Random& random) {
  const std::size_t at = below(text.size(), random);
  const std::string block = text.substr(at, 1 + below(random() % 4 == 0 ? 400 : 12, random));
  // The longest take most of the time, and a thousand of them in a million tell as much as ten
  // thousand.
  const std::uint64_t kind = random() % 256;
  std::size_t times = kind == 0 ? kLongestMutant : kind < 16 ? 1 + random() % 200 : 1 + random() % 8;
  times = std::min(times, (kLongestMutant - std::min(kLongestMutant, text.size())) / block.size());
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += block;
  text.insert(at, all);
}

void change(std::string& text, std::string_view other, Random& random) {
  const std::size_t at = below(text.size() + 1, random), length = 1 + below(12, random);
  const bool inside = at < text.size();
  switch (random() % 12) {
    case 0:
      if (inside) text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
      break;
    case 1:
      if (inside) text[at] = static_cast<char>(random());
      break;
    case 2:
      text.erase(at, length);
      break;
    case 3:
      text.insert(at, one_of(kWords, random));
      break;
    case 4:
      text.replace(at, inside ? length : 0, one_of(kWords, random));
      break;
    case 5:
      text.insert(below(text.size() + 1, random), text.substr(at, random() % 4 == 0 ? 200 : length));
      break;
    case 6:
      if (inside) repeat_block(text, random);
      break;
    case 7:
    case 8:
      if (inside) replace_number(text, random);
      break;
    case 9:
      overwrite_binary(text, random);
      break;
    case 10:
      text.insert(
          at, other.substr(std::min(other.size(), below(other.size() + 1, random)), 1 + below(200, random)));
      break;
    default:
      if (random() % 4 == 0) text.resize(at);
  }
}

const json& strange_value(Random& random) {
  static const std::vector<json> values = {nullptr,
                                           true,
                                           false,
                                           0,
                                           1,
                                           -1,
                                           7,
                                           1u << 30,
                                           std::int64_t{1} << 60,
                                           std::numeric_limits<std::int64_t>::max(),
                                           std::numeric_limits<std::int64_t>::min(),
                                           std::numeric_limits<std::uint64_t>::max(),
                                           0.5,
                                           -0.0,
                                           1e300,
                                           "",
                                           "x y",
                                           "(",
                                           "../x",
                                           "/dev/null",
                                           std::string(1, '\0'),
                                           std::string(3000, 'x'),
                                           "\xf0\x9f\x98\x80",
                                           json::array(),
                                           json::object(),
                                           json::array({0, -1}),
                                           json::array({"", nullptr}),
                                           {{"a", {{"a", {{"a", 1}}}}}}};
  return values[below(values.size(), random)];
}

void change_value(json& value, Random& random, int depth) {
  if (value.is_structured() && !value.empty() && depth > 0 && random() % 16 != 0) {
    auto child = value.begin();
    std::advance(child, below(value.size(), random));
    if (random() % 4 != 0) return change_value(*child, random, depth - 1);
    switch (random() % 4) {
      case 0:
        return static_cast<void>(value.erase(child));
      case 1:
        if (value.is_array()) return value.push_back(json(*child));
        value["extra"] = json(*child);
        return;
      case 2: {
        auto other = value.begin();
        std::advance(other, below(value.size(), random));
        return std::swap(*child, *other);
      }
      default:
        *child = strange_value(random);
        return;
    }
  }
  if (value.is_number_integer() && random() % 2 == 0)
    value =
        static_cast<std::int64_t>(value.get<std::uint64_t>() + (random() % 2 == 0 ? 1 : ~std::uint64_t{0}));
  else if (value.is_string() && random() % 2 == 0)
    value = mutate(value.get<std::string>(), "", random);
  else
    value = strange_value(random);
}

std::string written(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string mutate(std::string text, std::string_view other, Random& random) {
  for (std::size_t changes = 1 + random() % 4; changes > 0; --changes) change(text, other, random);
  if (text.size() > kLongestMutant) text.resize(kLongestMutant);
  return text;
}

std::string mutate_json(const std::string& text, std::string_view other, Random& random) {
  std::size_t begin = 0, end = text.size();
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded() && !text.empty()) {
    const std::size_t newline = text.rfind('\n', below(text.size(), random));
    begin = newline == text.npos ? 0 : newline + 1;
    end = std::min(text.find('\n', begin), text.size());
    value = json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                        text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
  }
  if (value.is_discarded()) return mutate(text, other, random);
  for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) change_value(value, random, 8);
  return text.substr(0, begin) + written(value) + text.substr(end);
}

}  // namespace rondo::attack

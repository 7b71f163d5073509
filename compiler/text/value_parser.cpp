// Parses values by recursive descent. A list may not contain a list, which bounds the recursion.
// Sizes and strides are checked for overflow before anything multiplies them.
#include "compiler/text/value_parser.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <limits>

namespace rondo::ir {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;

}  // namespace

ValueId ValueParser::value_number() {
  const std::size_t start = pos_;
  if (!take('%')) fail(start, "no value", "a value such as %3");
  std::size_t id = 0;
  const auto [end, error] = std::from_chars(cursor(), limit(), id);
  if (error != std::errc() || id >= max_values_)
    fail(start, "bad value number", fmt::format("%N with N below {}", max_values_));
  advance_to(end);
  if (id >= graph_.values.size()) {
    graph_.values.resize(id + 1);
    defined_.resize(id + 1, kUndefined);
  }
  return static_cast<ValueId>(id);
}

ValueId ValueParser::use() {
  const std::size_t start = pos_;
  const ValueId id = value_number();
  if (defined_[id] != kDefined)
    fail(start, fmt::format("%{} is not defined before", id), "a value defined before its use");
  return id;
}

ValueId ValueParser::definition() {
  const std::size_t start = pos_;
  const ValueId id = value_number();
  if (defined_[id] != kUndefined)
    fail(start, fmt::format("%{} is defined a second time", id), "one definition of each value");
  expect(':');
  graph_.value(id).on_host = take_word("host");
  graph_.value(id).type = type();
  defined_[id] = kDefined;
  return id;
}

TensorType ValueParser::type() {
  const std::size_t start = pos_;
  const std::string word = letters();
  const auto dtype = dtype_from_name(word);
  if (!dtype)
    fail(start, fmt::format("unknown dtype \"{}\"", word),
         "f64, f32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i16, i8, u8 or b8");
  TensorType type{.dtype = *dtype, .sizes = {}, .strides = {}};
  expect('[');
  type.sizes = dimensions(']');
  check_bytes(start, type.sizes, nullptr);
  const bool has_strides = take('{');
  type.strides = has_strides ? dimensions('}') : contiguous_strides(type.sizes);
  if (type.strides.size() != type.sizes.size())
    fail(start, fmt::format("the type has {} sizes and {} strides", type.sizes.size(), type.strides.size()),
         "a stride for each size");
  check_bytes(start, type.sizes, &type.strides);
  return type;
}

std::vector<std::int64_t> ValueParser::dimensions(char close) {
  std::vector<std::int64_t> list;
  if (take(close)) return list;
  do {
    const std::size_t start = pos_;
    list.push_back(integer());
    if (list.back() < 0) fail(start, "a negative size or stride", "0 or more");
    if (list.size() > kMaxDims) fail(start, "too many dimensions", "at most 64");
  } while (take(','));
  expect(close);
  return list;
}

void ValueParser::check_bytes(std::size_t start, const std::vector<std::int64_t>& sizes,
                              const std::vector<std::int64_t>* strides) {
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t size = std::max<std::int64_t>(sizes[i], 1);
    std::int64_t reach = 0;
    const bool overflow = strides == nullptr ? __builtin_mul_overflow(elements, size, &elements)
                                             : __builtin_mul_overflow(size - 1, (*strides)[i], &reach) ||
                                                   __builtin_add_overflow(elements, reach, &elements);
    const bool stride_too_large = strides != nullptr && (*strides)[i] > kMaxBytes / 8;
    if (overflow || stride_too_large || elements > kMaxBytes / 8)
      fail(start, "the tensor is too large", "sizes and strides within 2^60 bytes");
  }
}

Argument ValueParser::argument(bool inner) {
  skip_spaces();
  const char c = peek();
  // Bounds the recursion for any text.
  if (inner && (c == '[' || text_.substr(pos_, 7) == "wrapped"))
    fail(pos_, "a nested argument", "one level of lists");
  if (c == '%') return Use{use()};
  if (c == '"') return quoted();
  if (c == '[') return list();
  if (c == '.') {
    ++pos_;
    return Symbol{name("a symbol such as .strided")};
  }
  if (is_digit(c) || c == '-') return number();
  return word_argument();
}

Argument ValueParser::word_argument() {
  const std::size_t start = pos_;
  const std::string word = letters();
  if (word == "none") return None{};
  if (word == "true") return true;
  if (word == "false") return false;
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "nan") return nan();
  if (word == "wrapped") return wrapped();
  if (word == "doubles" || word == "bools" || word == "values") {
    expect('[');
    expect(']');
    if (word == "doubles") return std::vector<double>{};
    if (word == "bools") return std::vector<bool>{};
    return UseList{};
  }
  if (const auto dtype = dtype_from_name(word)) return *dtype;
  fail(start, fmt::format("unknown argument \"{}\"", word),
       "a value, number, text, list, dtype, .symbol, wrapped(...) or none");
}

Argument ValueParser::nan() {
  if (!take('(')) return std::numeric_limits<double>::quiet_NaN();
  const std::size_t start = pos_;
  std::uint64_t bits = 0;
  if (text_.substr(pos_, 2) == "0x") {
    pos_ += 2;
    const auto [end, error] = std::from_chars(cursor(), limit(), bits, 16);
    if (error == std::errc()) advance_to(end);
  }
  const double x = std::bit_cast<double>(bits);
  if (x == x) fail(start, "the bits of a number", "the 64 bits of a nan such as 0xfff8000000000000");
  expect(')');
  return x;
}

Argument ValueParser::wrapped() {
  expect('(');
  const std::size_t start = pos_;
  const Argument inner = argument(true);
  WrappedNumber wrapped;
  if (const auto* flag = std::get_if<bool>(&inner)) {
    wrapped.number = *flag;
  } else if (const auto* n = std::get_if<std::int64_t>(&inner)) {
    wrapped.number = *n;
  } else if (const auto* x = std::get_if<double>(&inner)) {
    wrapped.number = *x;
  } else {
    fail(start, "wrapped() of another kind", "a number or a bool");
  }
  expect(')');
  return wrapped;
}

Argument ValueParser::number() {
  const std::size_t start = pos_;
  if (text_.substr(pos_, 4) == "-inf") {
    pos_ += 4;
    return -std::numeric_limits<double>::infinity();
  }
  std::size_t end = pos_ + 1;
  while (end < text_.size() && (is_digit(text_[end]) || is_letter(text_[end]) || text_[end] == '.' ||
                                ((text_[end] == '-' || text_[end] == '+') && (text_[end - 1] | 32) == 'e')))
    ++end;
  const std::string_view token = text_.substr(pos_, end - pos_);
  if (token.find_first_of(".eE") == std::string_view::npos) return integer();
  double x = 0;
  const auto [stop, error] = std::from_chars(token.data(), token.data() + token.size(), x);
  if (error != std::errc() || stop != token.data() + token.size())
    fail(start, fmt::format("bad number \"{}\"", token), "a number that a double can hold");
  pos_ = end;
  return x;
}

template <class Element>
Argument ValueParser::list_of(const Argument& first) {
  std::vector<Element> list{std::get<Element>(first)};
  while (take(',')) {
    const std::size_t start = pos_;
    const Argument next = argument(true);
    if (!std::holds_alternative<Element>(next))
      fail(start, "elements of different kinds", "a list of one kind");
    list.push_back(std::get<Element>(next));
  }
  expect(']');
  return list;
}

Argument ValueParser::list() {
  expect('[');
  if (take(']')) return std::vector<std::int64_t>{};
  const std::size_t start = pos_;
  const Argument first = argument(true);
  if (std::holds_alternative<std::int64_t>(first)) return list_of<std::int64_t>(first);
  if (std::holds_alternative<double>(first)) return list_of<double>(first);
  if (std::holds_alternative<bool>(first)) return list_of<bool>(first);
  if (std::holds_alternative<Use>(first) || std::holds_alternative<None>(first)) return use_list(first);
  fail(start, "a list of unsupported elements", "integers, doubles, bools or values");
}

Argument ValueParser::use_list(const Argument& first) {
  UseList list;
  const auto push = [&](const Argument& arg, std::size_t start) {
    if (const auto* use = std::get_if<Use>(&arg)) {
      list.values.push_back(use->value);
    } else if (std::holds_alternative<None>(arg)) {
      list.values.push_back(kNoValue);
    } else {
      fail(start, "elements of different kinds", "a list of values and none");
    }
  };
  push(first, pos_);
  while (take(',')) {
    const std::size_t start = pos_;
    push(argument(true), start);
  }
  expect(']');
  return list;
}

}  // namespace rondo::ir

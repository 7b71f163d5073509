// A recursive descent parser. A name is a list of strings that each literal or bracket multiplies.
// The text is untrusted and short text can stand for billions of names. So every product and range
// is checked against the limit before it is expanded. Numbers keep the width of the range's first
// number, because host names have leading zeros.
#include "launch/rendezvous/hostlist.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdint>

#include "support/error.h"
#include "support/text/numbers.h"

namespace rondo {
namespace {

constexpr std::size_t kMaxNames = 65536;
constexpr std::size_t kMaxNameLength = 255;

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw Error(ExitCode::environment, fmt::format("\"{}{}\" is not a Slurm list: {}", text.substr(0, 200),
                                                 text.size() > 200 ? "..." : "", why));
}

std::size_t digits_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
  return end - at;
}

// Reads one list. A name starts as {""}; literals and brackets are appended to every string in it.
class HostlistReader {
 public:
  explicit HostlistReader(std::string_view text) : text_(text) {}

  std::vector<std::string> read() {
    std::vector<std::string> hosts;
    while (true) {
      for (std::string& name : read_name()) hosts.push_back(std::move(name));
      if (hosts.size() > kMaxNames) refuse(text_, "more than 65536 names");
      if (at_ == text_.size()) return hosts;
      ++at_;  // the comma
    }
  }

 private:
  std::vector<std::string> read_name() {
    std::vector<std::string> names = {""};
    const std::size_t start = at_;
    while (at_ < text_.size() && text_[at_] != ',') {
      if (text_[at_] == '[')
        names = product(names, read_bracket());
      else
        names = product(names, {read_literal()});
    }
    if (at_ == start) refuse(text_, "an empty name");
    return names;
  }

  std::string read_literal() {
    const std::size_t start = at_;
    for (; at_ < text_.size() && text_[at_] != '[' && text_[at_] != ','; ++at_) {
      const unsigned char c = static_cast<unsigned char>(text_[at_]);
      if (!std::isalnum(c) && c != '-' && c != '.' && c != '_')
        refuse(text_, "a character that host names cannot have");
    }
    return std::string(text_.substr(start, at_ - start));
  }

  std::vector<std::string> read_bracket() {
    std::vector<std::string> numbers;
    do {
      ++at_;  // '[' or ','
      read_range(numbers);
    } while (at_ < text_.size() && text_[at_] == ',');
    if (at_ == text_.size() || text_[at_] != ']')
      refuse(text_, "a bracket must hold numbers and ranges, and be closed");
    ++at_;
    return numbers;
  }

  void read_range(std::vector<std::string>& numbers) {
    const std::string_view lower = read_number();
    std::string_view upper = lower;
    if (at_ < text_.size() && text_[at_] == '-') {
      ++at_;
      upper = read_number();
    }
    const auto first = number_in<std::int64_t>(lower, 0, INT64_C(999'999'999));
    const auto last = number_in<std::int64_t>(upper, 0, INT64_C(999'999'999));
    if (!first || !last || *first > *last) refuse(text_, "a bracket must hold numbers and rising ranges");
    if (static_cast<std::size_t>(*last - *first) + numbers.size() >= kMaxNames)
      refuse(text_, "more than 65536 names");
    for (std::int64_t i = *first; i <= *last; ++i) numbers.push_back(fmt::format("{:0{}}", i, lower.size()));
  }

  std::string_view read_number() {
    const std::size_t length = digits_at(text_, at_);
    const std::string_view number = text_.substr(at_, length);
    at_ += length;
    return number;
  }

  std::vector<std::string> product(const std::vector<std::string>& heads,
                                   const std::vector<std::string>& tails) {
    if (heads.size() * tails.size() > kMaxNames) refuse(text_, "more than 65536 names");
    std::vector<std::string> names;
    names.reserve(heads.size() * tails.size());
    for (const std::string& head : heads)
      for (const std::string& tail : tails) {
        if (head.size() + tail.size() > kMaxNameLength) refuse(text_, "a name over 255 characters");
        names.push_back(head + tail);
      }
    return names;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text) {
  if (text.size() > kMaxNames) refuse(text, "more than 65536 characters");
  return HostlistReader(text).read();
}

std::vector<int> expand_counts(std::string_view text) {
  std::vector<int> counts;
  std::size_t at = 0;
  const auto read = [&](int highest) {
    const std::size_t length = digits_at(text, at);
    const auto value = number_in(text.substr(at, length), 1, highest);
    if (!value) refuse(text, "counts must look like 2(x3),1");
    at += length;
    return *value;
  };
  while (true) {
    const int count = read(1 << 20);
    int times = 1;
    if (text.substr(at, 2) == "(x") {
      at += 2;
      times = read(static_cast<int>(kMaxNames));
      if (at == text.size() || text[at++] != ')') refuse(text, "counts must look like 2(x3),1");
    }
    if (counts.size() + static_cast<std::size_t>(times) > kMaxNames) refuse(text, "more than 65536 nodes");
    counts.insert(counts.end(), static_cast<std::size_t>(times), count);
    if (at == text.size()) return counts;
    if (text[at++] != ',') refuse(text, "counts must look like 2(x3),1");
  }
}

}  // namespace rondo

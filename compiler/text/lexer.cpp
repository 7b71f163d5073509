// Numbers are parsed with std::from_chars, which ignores the locale. The take functions consume a
// word only if it is next, so the parser needs no backtracking. A word must end where a name would,
// so that a longer name does not match its prefix. Line and column are counted only for errors.
#include "compiler/text/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "support/error.h"

namespace rondo::ir {

std::int64_t Lexer::integer() {
  skip_spaces();
  const std::size_t start = pos_;
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(cursor(), limit(), n);
  if (error == std::errc::result_out_of_range) fail(start, "the integer is too large", "64 bits");
  if (error != std::errc()) fail(start, "no integer", "an integer");
  advance_to(end);
  return n;
}

std::string Lexer::letters() {
  skip_spaces();
  const std::size_t start = pos_;
  while (pos_ < text_.size() && (is_letter(text_[pos_]) || is_digit(text_[pos_]))) ++pos_;
  return std::string(text_.substr(start, pos_ - start));
}

std::string Lexer::name(std::string_view expected) {
  skip_spaces();
  if (peek() == '"') return quoted();
  const std::size_t start = pos_;
  while (pos_ < text_.size() && is_bare(text_[pos_])) ++pos_;
  if (pos_ == start) fail(start, "no name", expected);
  return std::string(text_.substr(start, pos_ - start));
}

std::string Lexer::quoted() {
  const std::size_t start = pos_++;
  std::string result;
  for (;;) {
    const std::size_t at = pos_;
    const char c = peek();
    if (c == '\0' || c == '\n') fail(start, "an unterminated string", "'\"' on the same line");
    ++pos_;
    if (c == '"') return result;
    if (c != '\\') {
      result += c;
      continue;
    }
    const char escaped = peek();
    ++pos_;
    if (escaped == 'n') {
      result += '\n';
    } else if (escaped == '"' || escaped == '\\') {
      result += escaped;
    } else if (escaped == 'x') {
      result += hex_byte(at);
    } else {
      fail(at, "unknown escape", "\\n, \\\", \\\\ or \\xHH");
    }
  }
}

char Lexer::hex_byte(std::size_t start) {
  unsigned byte = 0;
  const std::string_view digits = text_.substr(std::min(pos_, text_.size()), 2);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
  if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2)
    fail(start, "unknown escape", "\\x with two hexadecimal digits");
  pos_ += 2;
  return static_cast<char>(byte);
}

void Lexer::skip_spaces() {
  while (peek() == ' ' || peek() == '\t' || peek() == '\r') ++pos_;
}

bool Lexer::at_end_of_line() {
  skip_spaces();
  return pos_ >= text_.size() || peek() == '\n' || peek() == '#';
}

void Lexer::end_of_line() {
  if (!at_end_of_line()) fail(pos_, "unexpected text", "the end of the line");
  skip_line();
}

void Lexer::skip_empty_lines() {
  while (pos_ < text_.size() && at_end_of_line() && pos_ < text_.size()) skip_line();
}

bool Lexer::take(char c) {
  skip_spaces();
  if (pos_ >= text_.size() || text_[pos_] != c) return false;
  ++pos_;
  skip_spaces();
  return true;
}

void Lexer::expect(char c) {
  if (!take(c))
    fail(pos_, pos_ < text_.size() ? "unexpected text" : "the text ends here", fmt::format("'{}'", c));
}

bool Lexer::take_word(std::string_view word) {
  skip_spaces();
  if (text_.substr(pos_, word.size()) != word) return false;
  const std::size_t end = pos_ + word.size();
  if (end < text_.size() && is_bare(text_[end])) return false;
  pos_ = end;
  skip_spaces();
  return true;
}

void Lexer::expect_word(std::string_view word) {
  if (!take_word(word)) fail(pos_, "unexpected text", fmt::format("\"{}\"", word));
}

bool Lexer::take_arrow() {
  skip_spaces();
  if (text_.substr(pos_, 2) != "->") return false;
  pos_ += 2;
  skip_spaces();
  return true;
}

void Lexer::fail(std::size_t position, const std::string& problem, std::string_view expected) const {
  const std::string_view before = text_.substr(0, std::min(position, text_.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  throw Error(ExitCode::graph, fmt::format("{}:{}:{}: {}; expected {}", file_name_, line,
                                           before.size() - line_start + 1, problem, expected));
}

}  // namespace rondo::ir

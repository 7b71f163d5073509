// The tokens of the text form (compiler/text/text.h): a cursor over a text that reports its
// position in errors. The text must outlive the lexer and may have any bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace rondo::ir {

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file_name) : text_(text), file_name_(file_name) {}

 protected:
  // Throws Error(ExitCode::graph) "file:line:column: problem; expected ...".
  [[noreturn]] void fail(std::size_t position, const std::string& problem, std::string_view expected) const;

  // Each of these skips spaces first, and throws if the text does not match.
  std::int64_t integer();
  std::string letters();                        // letters, digits and _; may be empty
  std::string name(std::string_view expected);  // bare or quoted
  std::string quoted();
  void expect(char c);
  void expect_word(std::string_view word);
  void end_of_line();

  // Consumes the text and returns true if it is next; otherwise does nothing.
  bool take(char c);
  bool take_word(std::string_view word);
  bool take_arrow();

  bool at_end_of_line();  // a comment counts as the end
  void skip_spaces();
  void skip_empty_lines();
  void skip_line() { pos_ = std::min(text_.find('\n', pos_), text_.size() - 1) + 1; }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  static bool is_bare(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == ':' || c == '/'; }
  char peek() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }
  const char* cursor() const { return text_.data() + pos_; }
  const char* limit() const { return text_.data() + text_.size(); }
  void advance_to(const char* p) { pos_ = static_cast<std::size_t>(p - text_.data()); }

  std::string_view text_;
  std::size_t pos_ = 0;

 private:
  char hex_byte(std::size_t start);

  std::string_view file_name_;
};

}  // namespace rondo::ir

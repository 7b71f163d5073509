#include "support/printable.h"

#include <utility>

#include "support/utf8.h"

namespace rondo {
namespace {

// C0 except \n and \t, DEL, and C1, which some terminals obey, too; and what reverses the text that
// follows.
bool is_control(char32_t c) {
  return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

void append_escaped(std::string_view bytes, std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    out += {'\\', 'x', kDigits[value >> 4], kDigits[value & 15]};
  }
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (at >= most) return out + "...";
    const std::string_view rest = text.substr(at);
    const std::size_t length = utf8_length(rest);
    const std::string_view bytes = rest.substr(0, length == 0 ? 1 : length);
    if (length == 0 || is_control(utf8_character(rest)))
      append_escaped(bytes, out);
    else
      out += bytes;
    at += bytes.size();
  }
  return out;
}

std::string PrintablePieces::add(std::string_view piece) {
  const std::string text = pending_ + std::string(piece);
  const std::size_t length = text.size() - unfinished_utf8_suffix(text);
  pending_ = text.substr(length);
  return printable(std::string_view(text).substr(0, length));
}

std::string PrintablePieces::end() { return printable(std::exchange(pending_, "")); }

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) c == '\'' ? quoted += "'\\''" : quoted += c;
  return quoted + "'";
}

}  // namespace rondo

// UTF-8 as Unicode defines it (no surrogates, no overlong forms, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {

// Returns the bytes of the character at the beginning of `text`, or 0 if there is no valid one.
std::size_t utf8_length(std::string_view text);

// Returns the bytes of `character`. REQUIRES: `character` is a Unicode code point.
constexpr std::size_t utf8_length(char32_t character) {
  return character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
}

// Returns the character at the beginning of `text`. REQUIRES: it is valid.
char32_t utf8_character(std::string_view text);

void append_utf8(char32_t character, std::string& out);

// Returns the length of the longest prefix of `text` that is ASCII.
std::size_t ascii_prefix(std::string_view text);

// Returns the length of the longest valid prefix of `text`.
std::size_t valid_utf8_prefix(std::string_view text);

inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

// Returns the length of the prefix of `text` before its first valid character.
std::size_t invalid_utf8_prefix(std::string_view text);

// Returns the length of the suffix of `text` that further bytes may complete to a character: 0 to
// 3.
std::size_t unfinished_utf8_suffix(std::string_view text);

}  // namespace rondo

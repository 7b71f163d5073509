// UTF-8 as Unicode defines it (no surrogates, no overlong forms, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {

// Bytes of the character at the beginning of `text`; 0 if no valid one stands there.
std::size_t utf8_length(std::string_view text);

// Bytes that `character`, which must be one of Unicode's, takes.
constexpr std::size_t utf8_length(char32_t character) {
  return character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
}

// The character at the beginning of `text`, which must be valid there.
char32_t utf8_character(std::string_view text);

void append_utf8(char32_t character, std::string& out);

// Length of the longest valid beginning of `text`.
std::size_t valid_utf8_prefix(std::string_view text);

inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

// Length of the beginning of `text` up to its first valid character.
std::size_t invalid_utf8_prefix(std::string_view text);

// Length of the end of `text` that further bytes may make a character: 0 to 3.
std::size_t unfinished_utf8_suffix(std::string_view text);

}  // namespace rondo

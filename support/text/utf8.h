// UTF-8 as Unicode defines it (no surrogates, no overlong forms, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {

// Bytes of the character at the beginning of `text`; 0 if no valid one stands there.
size_t utf8_length(std::string_view text);

// The character at the beginning of `text`, which must be valid there.
char32_t utf8_character(std::string_view text);

void append_utf8(char32_t character, std::string& out);

// Length of the longest valid beginning of `text`.
size_t valid_utf8_prefix(std::string_view text);

// Length of the beginning of `text` up to its first valid character.
size_t invalid_utf8_prefix(std::string_view text);

}  // namespace rondo

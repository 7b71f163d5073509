// Table 3-7 of the Unicode standard: the first byte decides the length and the range of the second
// byte. That range excludes overlong forms, surrogates and code points above U+10FFFF, so
// validation needs no decoding. Runs of ASCII are skipped 64 or 8 bytes at a time, because most
// text is ASCII.
#include "support/utf8.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace rondo {
namespace {

unsigned char byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

bool within(std::string_view text, std::size_t i, unsigned char low, unsigned char high) {
  return i < text.size() && byte_at(text, i) >= low && byte_at(text, i) <= high;
}

bool continues(std::string_view text, std::size_t i) { return within(text, i, 0x80, 0xBF); }

// Whether bytes are all ASCII: a multiple of eight.
template <std::size_t bytes>
bool all_ascii(const char* text) {
  std::array<std::uint64_t, bytes / 8> words;
  std::memcpy(words.data(), text, bytes);
  std::uint64_t any = 0;
  for (const std::uint64_t word : words) any |= word;
  return (any & 0x8080808080808080u) == 0;
}

}  // namespace

// Table 3-7 of the Unicode standard: the range of the second byte depends on the first.
std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const unsigned char first = byte_at(text, 0);
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return continues(text, 1) ? 2 : 0;
  if (first < 0xF0) {
    const unsigned char low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
    return within(text, 1, low, high) && continues(text, 2) ? 3 : 0;
  }
  if (first > 0xF4) return 0;
  const unsigned char low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
  return within(text, 1, low, high) && continues(text, 2) && continues(text, 3) ? 4 : 0;
}

char32_t utf8_character(std::string_view text) {
  const auto low_bits = [&](std::size_t i) { return static_cast<char32_t>(byte_at(text, i) & 0x3F); };
  const char32_t first = byte_at(text, 0);
  if (first < 0x80) return first;
  if (first < 0xE0) return (first & 0x1F) << 6 | low_bits(1);
  if (first < 0xF0) return (first & 0x0F) << 12 | low_bits(1) << 6 | low_bits(2);
  return (first & 0x07) << 18 | low_bits(1) << 12 | low_bits(2) << 6 | low_bits(3);
}

void append_utf8(char32_t character, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (character >> shift & 0x3F)); };
  if (character < 0x80) {
    out += static_cast<char>(character);
  } else if (character < 0x800) {
    out += static_cast<char>(0xC0 | character >> 6);
    tail(0);
  } else if (character < 0x10000) {
    out += static_cast<char>(0xE0 | character >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | character >> 18);
    tail(12), tail(6), tail(0);
  }
}

std::size_t ascii_prefix(std::string_view text) {
  if (text.empty() || byte_at(text, 0) >= 0x80) return 0;
  std::size_t i = 0;
  while (i + 64 <= text.size() && all_ascii<64>(text.data() + i)) i += 64;
  while (i + 8 <= text.size() && all_ascii<8>(text.data() + i)) i += 8;
  while (i < text.size() && byte_at(text, i) < 0x80) ++i;
  return i;
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t i = 0;
  while ((i += ascii_prefix(text.substr(i))) < text.size()) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) break;
    i += length;
  }
  return i;
}

std::size_t invalid_utf8_prefix(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size() && utf8_length(text.substr(i)) == 0) ++i;
  return i;
}

std::size_t unfinished_utf8_suffix(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(3, text.size()); ++length) {
    const std::string suffix(text.substr(text.size() - length));
    // Every range of a second byte contains one of these two.
    for (const char* continuation : {"\x80\x80\x80", "\xBF\xBF\xBF"})
      if (utf8_length(suffix + continuation) > length) return length;
  }
  return 0;
}

}  // namespace rondo

#include "datasets/tokenizer/split/byte_level.h"

#include <array>

#include "support/utf8.h"

namespace rondo {
namespace {

constexpr int kLastCharacter = 0x143;

constexpr bool is_printable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte)
    characters[byte] = is_printable(byte) ? static_cast<char32_t>(byte) : next++;
  return characters;
}

constexpr std::array<char32_t, 256> kCharacters = make_characters();

constexpr std::array<int, kLastCharacter + 1> make_bytes() {
  std::array<int, kLastCharacter + 1> bytes{};
  for (int& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = byte;
  return bytes;
}

constexpr std::array<int, kLastCharacter + 1> kBytes = make_bytes();

}  // namespace

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size(); i += utf8_length(token.substr(i))) {
    const char32_t character = utf8_character(token.substr(i));
    if (character > kLastCharacter || kBytes[character] < 0) return std::nullopt;
    bytes += static_cast<char>(kBytes[character]);
  }
  return bytes;
}

std::string token_of_bytes(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) append_utf8(kCharacters[static_cast<unsigned char>(byte)], token);
  return token;
}

}  // namespace rondo

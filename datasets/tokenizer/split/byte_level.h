// The alphabet in which byte-level tokenizers write bytes as text. Every byte is one printable
// character (GPT-2's mapping): printable Latin-1 is unchanged, and the other 68 bytes are U+0100
// and up. A space is "Ġ".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rondo {

// Returns the bytes of a token, which must be valid UTF-8; nullopt if it has a character outside
// the alphabet.
std::optional<std::string> bytes_of_token(std::string_view token);

// Returns the token of any bytes: the inverse of bytes_of_token.
std::string token_of_bytes(std::string_view bytes);

}  // namespace rondo

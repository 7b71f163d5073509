// The alphabet in which byte-level tokenizers write bytes as text: every byte is one printable character
// (GPT-2's mapping: printable Latin-1 stands for itself, the other 68 bytes follow from U+0100 on). A space
// is "Ġ".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rondo {

// The bytes that a token of valid UTF-8 stands for; nothing if it has a character outside the alphabet.
std::optional<std::string> bytes_of_token(std::string_view token);

// The other way round.
std::string token_of_bytes(std::string_view bytes);

}  // namespace rondo

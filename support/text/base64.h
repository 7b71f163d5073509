// Base64 (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rondo {

// Returns the bytes of a text in base64 with padding; nullopt for any other text.
std::optional<std::string> base64_bytes(std::string_view text);

}  // namespace rondo

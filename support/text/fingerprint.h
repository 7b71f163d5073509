// A short fingerprint of a text. Equal texts have equal fingerprints; different texts collide with
// probability 2^-64.
#pragma once

#include <string>
#include <string_view>

namespace rondo {

// Returns the 64-bit XXH3 hash as 16 hexadecimal digits.
std::string fingerprint_of(std::string_view text);

}  // namespace rondo

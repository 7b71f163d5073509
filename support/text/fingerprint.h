// A text in few letters: equal texts have equal ones, and others, but for one in 2^64, have not.
#pragma once

#include <string>
#include <string_view>

namespace rondo {

// XXH3, 64 bits, as 16 hexadecimal digits.
std::string fingerprint_of(std::string_view text);

}  // namespace rondo

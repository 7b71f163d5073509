// The one mutator of the tests: texts and bytes as damage, mistakes and attackers make them. The
// same numbers from `random` give the same result everywhere.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

namespace rondo::attack {

using Random = std::mt19937_64;

inline constexpr std::size_t kLongestMutant = 64 << 10;  // bytes

// Changes `text` in one to four places: bits flipped, bytes replaced, taken out, put in or
// repeated, numbers replaced by those at the ends of types (in digits or in binary), words of the
// formats put in, a piece of `other` put in, the end cut off.
std::string mutate(std::string text, std::string_view other, Random& random);

// The same for JSON: one to three values are replaced, removed, doubled or moved, and what comes
// out is JSON. Of JSON lines, one line. A text that is neither is mutated as bytes.
std::string mutate_json(const std::string& text, std::string_view other, Random& random);

// Returns whether the bytes are fields of protobuf's wire format, without groups.
bool is_protobuf(std::string_view message);

// The same for protobuf: one to three fields, of the message or of one within it, are changed,
// removed, doubled or moved, and the lengths around them are right. REQUIRES is_protobuf(message).
std::string mutate_protobuf(std::string_view message, Random& random);

}  // namespace rondo::attack

// From the regular expressions of a tokenizer.json, which Oniguruma reads (Ruby's syntax), to PCRE2's.
//
// Unicode classes become lists of code points (unicode.h). What the two engines understand alike passes
// through, what they would silently understand differently is refused: \w \b \h ^ $ {,n} {n}+ set operations
// in classes, and in case-insensitive groups everything but ASCII letters and apostrophes, for Oniguruma
// folds "ss" with U+00DF.
#pragma once

#include <string>
#include <string_view>

namespace rondo {

// `pattern` is valid UTF-8. `place` says where it stands, for messages. Throws Error(data) that names what is
// not supported and where in the pattern it is. What PCRE2 itself refuses is not looked for here.
std::string pcre2_pattern(std::string_view pattern, const std::string& place);

// A pattern for exactly this text.
std::string pcre2_literal(std::string_view text);

}  // namespace rondo

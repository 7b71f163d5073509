// Translates the regular expressions of a tokenizer.json, which Oniguruma reads (Ruby's syntax),
// to PCRE2.
//
// Unicode classes become lists of code points (unicode.h). What both engines read equally is
// copied. Classes, with nested ones and intersections (&&), become one list.
// $, \b and {n}+ are written as PCRE2 reads what Oniguruma means. What else they silently read
// differently is refused: \w \h ^ {,n}. In case-insensitive groups everything but ASCII letters,
// classes of them and apostrophes is refused, because Oniguruma folds "ss" with U+00DF.
#pragma once

#include <string>
#include <string_view>

namespace rondo {

// Returns the PCRE2 pattern. `pattern` is valid UTF-8. `place` names its place in the file, for
// messages. Throws Error(data) that names what is not supported and its byte offset. Does not check
// what PCRE2 itself refuses.
std::string pcre2_pattern(std::string_view pattern, const std::string& place);

// Returns a pattern that matches exactly this text.
std::string pcre2_literal(std::string_view text);

}  // namespace rondo

// The normalization forms of Unicode (UAX 15) as the package `tokenizers` has them.
//
// utf8proc normalizes. The package's tables are those of an older version of Unicode: code points
// that they do not know neither decompose, reorder nor compose, so they are left out of what
// utf8proc receives. The result does not depend on the version of utf8proc from 15.0 on, because
// Unicode never changes the forms of a code point that it has assigned.
#pragma once

#include <string>
#include <string_view>

#include "datasets/tokenizer/split/unicode.h"

namespace rondo {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

// Immutable; any thread may use it.
class FormNormalizer {
 public:
  explicit FormNormalizer(UnicodeForm form);

  // Appends the normalized text. REQUIRES: `text` is valid UTF-8. Linear but for the sorting of
  // long runs of combining marks.
  void append(std::string_view text, std::string& out) const;

 private:
  void append_piece(std::string_view piece, std::string& out) const;

  UnicodeForm form_;
  CodePointBits known_;     // may begin a pair that composes
  CodePointBits changing_;  // changes, is reordered, or composes with the code point before
};

}  // namespace rondo

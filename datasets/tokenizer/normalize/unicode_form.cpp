// Text without a changing code point is copied. A run of changing ones goes to utf8proc together
// with the code point before it. The code points of a run are decomposed one by one and their marks
// sorted here, since utf8proc sorts in quadratic time.
#include "datasets/tokenizer/normalize/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <vector>

#include "support/utf8.h"

namespace rondo {
namespace {

constexpr int kMaxParts = 32;  // of one decomposition; Unicode has at most 18

bool is_composed(UnicodeForm form) { return form == UnicodeForm::nfc || form == UnicodeForm::nfkc; }

utf8proc_option_t options_of(UnicodeForm form) {
  const bool is_compatible = form == UnicodeForm::nfkc || form == UnicodeForm::nfkd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                        (is_compatible ? UTF8PROC_COMPAT : 0));
}

int combining_class(utf8proc_int32_t character) { return utf8proc_get_property(character)->combining_class; }

void decompose(char32_t character, UnicodeForm form, std::vector<utf8proc_int32_t>& out) {
  std::array<utf8proc_int32_t, kMaxParts> parts{};
  const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character),
                                                         parts.data(), kMaxParts, options_of(form), nullptr);
  if (count < 0 || count > kMaxParts) throw std::bad_alloc();
  out.insert(out.end(), parts.begin(), parts.begin() + count);
}

// Orders each run of combining marks by their class.
void sort_marks(std::vector<utf8proc_int32_t>& characters) {
  const auto is_mark = [](utf8proc_int32_t c) { return combining_class(c) != 0; };
  for (auto begin = characters.begin(); begin != characters.end();) {
    begin = std::find_if(begin, characters.end(), is_mark);
    const auto end = std::find_if_not(begin, characters.end(), is_mark);
    std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

std::vector<utf8proc_int32_t> normalized(std::vector<utf8proc_int32_t> characters, UnicodeForm form) {
  sort_marks(characters);
  if (!is_composed(form)) return characters;
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (count < 0) throw std::bad_alloc();
  characters.resize(static_cast<std::size_t>(count));
  return characters;
}

bool is_changing(char32_t character, UnicodeForm form) {
  const auto own = static_cast<utf8proc_int32_t>(character);
  std::vector<utf8proc_int32_t> parts;
  decompose(character, form, parts);
  parts = normalized(std::move(parts), form);
  return combining_class(own) != 0 || parts.size() != 1 || parts[0] != own;
}

}  // namespace

FormNormalizer::FormNormalizer(UnicodeForm form)
    : form_(form), known_(unicode_set("normalizable")), changing_(known_) {
  for (const CodePointRange& range : unicode_set("normalizable"))
    for (char32_t c = range.first; c <= range.last; ++c)
      if (!is_changing(c, form)) changing_.set(c, false);
  for (const CodePointRange& range : unicode_set("seconds"))
    for (char32_t c = range.first; is_composed(form) && c <= range.last; ++c) changing_.set(c, true);
}

void FormNormalizer::append(std::string_view text, std::string& out) const {
  std::size_t copied = 0, piece = 0;  // the first bytes not appended, and of the code point before
  for (std::size_t i = 0; i < text.size();) {
    if (const std::size_t ascii = ascii_prefix(text.substr(i)); ascii > 0) {
      i += ascii;
      piece = i - 1;
      continue;
    }
    const char32_t character = utf8_character(text.substr(i));
    if (!changing_.contains(character)) {
      piece = known_.contains(character) ? i : i + utf8_length(character);
      i += utf8_length(character);
      continue;
    }
    while (i < text.size() && changing_.contains(utf8_character(text.substr(i))))
      i += utf8_length(text.substr(i));
    out += text.substr(copied, piece - copied);
    append_piece(text.substr(piece, i - piece), out);
    copied = piece = i;
  }
  out += text.substr(copied);
}

void FormNormalizer::append_piece(std::string_view piece, std::string& out) const {
  std::vector<utf8proc_int32_t> characters;
  for (std::size_t i = 0; i < piece.size(); i += utf8_length(piece.substr(i)))
    decompose(utf8_character(piece.substr(i)), form_, characters);
  for (const utf8proc_int32_t character : normalized(std::move(characters), form_))
    append_utf8(static_cast<char32_t>(character), out);
}

}  // namespace rondo

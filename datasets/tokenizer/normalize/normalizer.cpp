#include "datasets/tokenizer/normalize/normalizer.h"

#include "datasets/tokenizer/split/byte_level.h"
#include "support/utf8.h"

namespace rondo {
namespace {

constexpr char32_t kCapitalIWithDot = 0x130, kDotAbove = 0x307;

template <class Each>
void each_character(std::string_view text, const Each& each) {
  for (std::size_t i = 0; i < text.size(); i += utf8_length(text.substr(i)))
    each(utf8_character(text.substr(i)));
}

std::string lowercase(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  each_character(text, [&](char32_t c) {
    append_utf8(c == kCapitalIWithDot ? U'i' : unicode_lowercase(c), lower);
    if (c == kCapitalIWithDot) append_utf8(kDotAbove, lower);
  });
  return lower;
}

// Returns whether something was removed from the left.
bool strip(const NormalizerStep& step, const CodePointBits& spaces, std::string& text) {
  std::string_view rest = text;
  while (step.strip_left && !rest.empty() && spaces.contains(utf8_character(rest)))
    rest.remove_prefix(utf8_length(rest));
  const bool stripped = rest.size() < text.size();
  while (step.strip_right && !rest.empty() &&
         spaces.contains(utf8_character(rest.substr(last_character(rest)))))
    rest = rest.substr(0, last_character(rest));
  text = std::string(rest);
  return stripped;
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps)
    : spaces_(unicode_set("spaces")), marks_(unicode_set("marks")) {
  for (const NormalizerStep& step : steps) {
    Step& added = steps_.emplace_back(Step{step, std::nullopt, std::nullopt});
    if (step.kind == NormalizerStep::Kind::form) added.form.emplace(step.form);
    if (step.kind == NormalizerStep::Kind::replace) added.regex.emplace(step.pattern, step.place);
  }
}

bool Normalizer::apply(std::string& text, RegexScratch& scratch) const {
  bool keeps_first = true;
  for (const Step& step : steps_) keeps_first = apply_step(step, text, scratch) && keeps_first;
  return keeps_first;
}

bool Normalizer::apply_step(const Step& step, std::string& text, RegexScratch& scratch) const {
  std::string result;
  switch (step.options.kind) {
    case NormalizerStep::Kind::form:
      if (ascii_prefix(text) == text.size()) return true;
      result.reserve(text.size());
      step.form->append(text, result);
      break;
    case NormalizerStep::Kind::lowercase:
      result = lowercase(text);
      break;
    case NormalizerStep::Kind::strip_accents: {
      const bool begins_with_mark = !text.empty() && marks_.contains(utf8_character(text));
      each_character(text, [&](char32_t c) {
        if (!marks_.contains(c)) append_utf8(c, result);
      });
      text = std::move(result);
      return !begins_with_mark;
    }
    case NormalizerStep::Kind::strip:
      return !strip(step.options, spaces_, text);
    case NormalizerStep::Kind::prepend:
      if (!text.empty()) text.insert(0, step.options.content);
      return true;
    case NormalizerStep::Kind::replace:
      return replace(step, text, scratch);
    case NormalizerStep::Kind::bytes:
      result = token_of_bytes(text);
      break;
  }
  text = std::move(result);
  return true;
}

// The reference aligns a replacement with the last character that it replaces.
bool Normalizer::replace(const Step& step, std::string& text, RegexScratch& scratch) const {
  std::string result;
  bool keeps_first = true;
  each_match(*step.regex, text, scratch, [&](std::size_t begin, std::size_t end, bool is_match) {
    const std::string_view piece = std::string_view(text).substr(begin, end - begin);
    result += is_match ? std::string_view(step.options.content) : piece;
    if (is_match && begin == 0 && end > 0)
      keeps_first = utf8_length(piece) == piece.size() && !step.options.content.empty();
  });
  text = std::move(result);
  return keeps_first;
}

}  // namespace rondo

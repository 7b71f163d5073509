// Rewrites a text before it is split: the steps of a tokenizer.json's normalizer, in order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "datasets/tokenizer/normalize/unicode_form.h"
#include "datasets/tokenizer/split/regex.h"

namespace rondo {

struct NormalizerStep {
  // bytes writes the bytes of a text in the alphabet of ByteLevel.
  enum class Kind { form, lowercase, strip_accents, strip, prepend, replace, bytes };
  Kind kind = Kind::form;
  UnicodeForm form = UnicodeForm::nfc;           // Kind::form
  bool strip_left = false, strip_right = false;  // Kind::strip
  std::string content = {};                      // Kind::prepend and Kind::replace
  // Kind::replace only.
  std::string pattern = {};  // PCRE2's syntax
  std::string place = {};    // for messages
  // The step in the words of the file; equal for steps that do the same.
  std::string meaning = {};
};

// Immutable. Threads share it, each with its own scratch.
class Normalizer {
 public:
  // Throws Error(data) for a pattern that does not compile.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  bool empty() const { return steps_.empty(); }

  // Normalizes `text`. Returns whether its first character stands for the first character of the
  // original, as the reference's alignments say. REQUIRES: `text` is valid UTF-8.
  bool apply(std::string& text, RegexScratch& scratch) const;

 private:
  struct Step {
    NormalizerStep options;
    std::optional<FormNormalizer> form;
    std::optional<Regex> regex;
  };
  bool apply_step(const Step& step, std::string& text, RegexScratch& scratch) const;
  bool replace(const Step& step, std::string& text, RegexScratch& scratch) const;

  std::vector<Step> steps_;
  CodePointBits spaces_, marks_;
};

}  // namespace rondo

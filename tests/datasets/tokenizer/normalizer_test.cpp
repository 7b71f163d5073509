#include "datasets/tokenizer/normalize/normalizer.h"

#include <catch2/catch_test_macros.hpp>

using namespace rondo;

namespace {

std::string form(UnicodeForm form, std::string_view text) {
  std::string normalized;
  FormNormalizer(form).append(text, normalized);
  return normalized;
}

struct Normalized {
  std::string text;
  bool keeps_first;
  bool operator==(const Normalized&) const = default;
};

Normalized normalized(const NormalizerStep& step, std::string text) {
  RegexScratch scratch;
  const bool keeps_first = Normalizer({step}).apply(text, scratch);
  return {text, keeps_first};
}

}  // namespace

TEST_CASE("the four forms compose and decompose, canonically and compatibly") {
  CHECK(form(UnicodeForm::nfc, "xe\u0301y") == "x\u00E9y");
  CHECK(form(UnicodeForm::nfd, "x\u00E9y") == "xe\u0301y");
  CHECK(form(UnicodeForm::nfkc, "\uFB01\u212B") == "fi\u00C5");
  CHECK(form(UnicodeForm::nfkd, "\u00BDA") == "1\u20442A");
  CHECK(form(UnicodeForm::nfc, "\u1112\u1161\u11AB") == "\uD55C");
  CHECK(form(UnicodeForm::nfd, "\uD55C") == "\u1112\u1161\u11AB");
  CHECK(form(UnicodeForm::nfc, "\u0344") == "\u0308\u0301");
  CHECK(form(UnicodeForm::nfc, "") == "");
}

TEST_CASE("marks are ordered by their class, and a mark without a base stays") {
  CHECK(form(UnicodeForm::nfd, "a\u0301\u0323") == "a\u0323\u0301");
  CHECK(form(UnicodeForm::nfc, "e\u0301\u0323") == "\u1EB9\u0301");
  CHECK(form(UnicodeForm::nfc, "\u0301\u0301a") == "\u0301\u0301a");
}

TEST_CASE("many marks are ordered in less than quadratic time") {
  std::string text = "a", ordered = "a";
  for (int i = 0; i < 200'000; ++i) text += "\u0345\u0334";
  for (int i = 0; i < 200'000; ++i) ordered += "\u0334";
  for (int i = 0; i < 200'000; ++i) ordered += "\u0345";
  CHECK(form(UnicodeForm::nfd, text) == ordered);
}

TEST_CASE("code points that the package's tables do not know stay as they are") {
  CHECK(form(UnicodeForm::nfkc, "\u32FF") == "\u32FF");          // SQUARE ERA NAME REIWA, Unicode 12.1
  CHECK(form(UnicodeForm::nfkc, "\U00010781") == "\U00010781");  // Unicode 14
  CHECK(form(UnicodeForm::nfd, "a\u0898\u0334") == "a\u0898\u0334");
  CHECK(form(UnicodeForm::nfd, "\U00011938") == "\U00011938");
}

TEST_CASE("a step tells whether the first character is still that of the text") {
  using Kind = NormalizerStep::Kind;
  const NormalizerStep strip{.kind = Kind::strip, .strip_left = true, .strip_right = true};
  CHECK(normalized(strip, " \u3000x y\n") == Normalized{"x y", false});
  CHECK(normalized(strip, "x\u00A0") == Normalized{"x", true});
  CHECK(normalized(strip, " \t") == Normalized{"", false});
  CHECK(normalized({.kind = Kind::prepend, .content = "_"}, "x") == Normalized{"_x", true});
  CHECK(normalized({.kind = Kind::prepend, .content = "_"}, "") == Normalized{"", true});
  const NormalizerStep replace{.kind = Kind::replace, .content = "_", .pattern = " +"};
  CHECK(normalized(replace, " x  y") == Normalized{"_x_y", true});
  CHECK(normalized(replace, "  x") == Normalized{"_x", false});
  CHECK(normalized({.kind = Kind::lowercase}, "\u0130\u1E9E\U00010D50") ==
        Normalized{"i\u0307\u00DF\U00010D70", true});
  CHECK(normalized({.kind = Kind::strip_accents}, "e\u0301") == Normalized{"e", true});
  CHECK(normalized({.kind = Kind::bytes}, "\u00E9 ") == Normalized{"\u00C3\u00A9\u0120", true});
}

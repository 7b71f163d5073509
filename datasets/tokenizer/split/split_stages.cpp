// Pre-tokenizers that test single characters become patterns of one character: the lists of
// unicode.h, which are those of the reference.
#include "datasets/tokenizer/split/split_stages.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "datasets/tokenizer/split/pattern.h"
#include "datasets/tokenizer/split/unicode.h"
#include "support/utf8.h"

namespace rondo {
namespace {

constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::size_t kMaxPatternBytes = 1 << 16;

constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kBehaviors = {{
    {"Isolated", SplitBehavior::isolated},
    {"Removed", SplitBehavior::removed},
    {"MergedWithPrevious", SplitBehavior::merged_with_previous},
    {"MergedWithNext", SplitBehavior::merged_with_next},
    {"Contiguous", SplitBehavior::contiguous},
}};

SplitBehavior read_behavior(const JsonView& view) {
  for (const auto& [name, behavior] : kBehaviors)
    if (view.text() == name) return behavior;
  view.refuse(
      "is not supported; it must be Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
  return SplitBehavior::isolated;
}

// Reads pre-tokenizers and appends their stages.
class Reader {
 public:
  explicit Reader(std::vector<SplitStage>& stages) : stages_(stages) {}

  void read(const JsonView& step, int depth) {
    const JsonView type = step.at("type");
    const std::string& name = type.text();
    if (name == "Sequence") return read_sequence(step, depth);
    if (name == "ByteLevel") return byte_level(step);
    if (name == "Split") return split(step);
    if (name == "Digits") return digits(step);
    if (name == "Punctuation") return punctuation(step);
    if (name == "Whitespace") {
      const CodePointSet words = unicode_set("words");
      const CodePointSet others = complement(unite(words, unicode_set("spaces")));
      return add(step, name, fmt::format("[{}]+|[{}]+", class_text(words), class_text(others)),
                 SplitBehavior::removed, /*invert=*/true);
    }
    if (name == "WhitespaceSplit") return characters(step, "spaces", SplitBehavior::removed);
    if (name == "BertPreTokenizer") {
      characters(step, "spaces", SplitBehavior::removed);
      return characters(step, "punctuation", SplitBehavior::isolated);
    }
    if (name == "Metaspace") return metaspace(step);
    if (name == "CharDelimiterSplit") {
      const std::string& delimiter = step.at("delimiter").text();
      if (!delimiter.empty())
        add(step, "String " + delimiter, pcre2_literal(delimiter), SplitBehavior::removed);
      return;
    }
    if (!name.empty()) type.refuse("is a pre-tokenizer that is not supported");
  }

 private:
  void read_sequence(const JsonView& sequence, int depth) {
    if (depth == kMaxNestedSteps) return sequence.refuse("is nested too deeply");
    for (const JsonView& step : sequence.at("pretokenizers").items()) {
      if (stages_.size() >= kMaxSteps) return step.refuse(fmt::format("follows {} others", kMaxSteps));
      read(step, depth + 1);
    }
  }

  void add(const JsonView& step, const std::string& meaning, std::string pattern, SplitBehavior behavior,
           bool invert = false) {
    SplitStage& stage = stages_.emplace_back();
    stage.pattern = std::move(pattern);
    stage.place = step.place();
    stage.behavior = behavior;
    stage.invert = invert;
    stage.meaning = fmt::format("{} {} {}", static_cast<int>(behavior), invert, meaning);
  }

  void characters(const JsonView& step, const std::string& set, SplitBehavior behavior) {
    add(step, set, "[" + class_text(unicode_set(set)) + "]", behavior);
  }

  void byte_level(const JsonView& step) {
    if (step.flag("add_prefix_space", true))
      stages_.push_back({.kind = SplitStage::Kind::prefix_space, .meaning = "prefix space"});
    if (step.flag("use_regex", true))
      add(step, fmt::format("Regex {}", kGpt2Pattern), pcre2_pattern(kGpt2Pattern, step.place()),
          SplitBehavior::isolated);
    stages_.push_back({.kind = SplitStage::Kind::bytes, .meaning = "bytes"});
  }

  void split(const JsonView& step) {
    FilePattern pattern = read_pattern(step.at("pattern"));
    const SplitBehavior behavior = read_behavior(step.at("behavior"));
    add(step.at("pattern"), pattern.meaning, std::move(pattern.pattern), behavior,
        step.flag("invert", false));
  }

  void digits(const JsonView& step) {
    characters(step, "numbers",
               step.flag("individual_digits", false) ? SplitBehavior::isolated : SplitBehavior::contiguous);
  }

  void punctuation(const JsonView& step) {
    const auto behavior = step.find("behavior");
    characters(step, "punctuation", behavior ? read_behavior(*behavior) : SplitBehavior::isolated);
  }

  void metaspace(const JsonView& step) {
    SplitStage stage{.kind = SplitStage::Kind::metaspace, .prepend = SplitStage::Prepend::always};
    const JsonView replacement = step.at("replacement");
    stage.replacement = replacement.text();
    if (stage.replacement.empty() || utf8_length(stage.replacement) != stage.replacement.size())
      replacement.refuse("must be one character");
    if (const auto scheme = step.find("prepend_scheme")) {
      if (scheme->text() == "never")
        stage.prepend = SplitStage::Prepend::never;
      else if (scheme->text() == "first")
        stage.prepend = SplitStage::Prepend::first;
      else if (scheme->text() != "always")
        scheme->refuse("must be always, first or never");
    }
    if (!step.flag("add_prefix_space", true) && stage.prepend != SplitStage::Prepend::never)
      step.refuse(
          "has add_prefix_space = false; prepend_scheme must then be \"never\", as the package "
          "tokenizers demands");
    stage.meaning = fmt::format("metaspace {} {}", stage.replacement, static_cast<int>(stage.prepend));
    const std::string text = stage.replacement;
    stages_.push_back(std::move(stage));
    if (step.flag("split", true) && !text.empty())
      add(step, "String " + text, pcre2_literal(text), SplitBehavior::merged_with_next);
  }

  std::vector<SplitStage>& stages_;
};

}  // namespace

FilePattern read_pattern(const JsonView& pattern) {
  const std::optional<JsonView> regex = pattern.find("Regex");
  const JsonView view = regex ? *regex : pattern.at("String");
  const std::string& text = view.text();
  if (text.empty()) view.refuse("an empty pattern is not supported");
  if (text.size() > kMaxPatternBytes) view.refuse("is too long");
  if (!regex) return {pcre2_literal(text), "String " + text};
  try {
    return {pcre2_pattern(text, view.place()), "Regex " + text};
  } catch (const Error& error) {
    if (view.source().problems == nullptr) throw;
    view.source().problems->push_back(error.what());
    return {};
  }
}

std::vector<SplitStage> read_split_stages(const JsonView& pre_tokenizer) {
  std::vector<SplitStage> stages;
  Reader(stages).read(pre_tokenizer, 0);
  return stages;
}

}  // namespace rondo

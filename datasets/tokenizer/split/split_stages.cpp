#include "datasets/tokenizer/split/split_stages.h"

#include "datasets/tokenizer/split/pattern.h"

namespace rondo {
namespace {

constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::size_t kMaxPatternBytes = 1 << 16;

std::string read_pattern(const JsonView& pattern) {
  const std::optional<JsonView> regex = pattern.find("Regex");
  const JsonView text = regex ? *regex : pattern.at("String");
  if (text.text().empty()) text.refuse("an empty pattern is not supported");
  if (text.text().size() > kMaxPatternBytes) text.refuse("is too long");
  return regex ? pcre2_pattern(text.text(), text.place()) : pcre2_literal(text.text());
}

// "invert" has no effect for Isolated, where matches and gaps both become words. For Removed it
// exchanges them.
SplitStage read_split(const JsonView& split) {
  SplitStage stage;
  const JsonView pattern = split.at("pattern");
  stage.pattern = read_pattern(pattern);
  stage.place = pattern.place();
  const JsonView behavior = split.at("behavior");
  const bool invert = split.flag("invert", false);
  if (behavior.text() == "Removed") {
    stage.keep_matches = invert;
    stage.keep_gaps = !invert;
  } else if (behavior.text() != "Isolated") {
    behavior.refuse("is not supported; it must be Isolated or Removed");
  }
  return stage;
}

void add_byte_level(const JsonView& byte_level, std::vector<SplitStage>& stages) {
  if (byte_level.flag("add_prefix_space", true)) stages.push_back({.kind = SplitStage::Kind::prefix_space});
  if (!byte_level.flag("use_regex", true)) return;
  const std::string place = byte_level.place();
  stages.push_back({.pattern = pcre2_pattern(kGpt2Pattern, place), .place = place});
}

}  // namespace

std::vector<SplitStage> read_split_stages(const JsonView& pre_tokenizer) {
  const bool is_sequence = pre_tokenizer.at("type").text() == "Sequence";
  const std::vector<JsonView> steps =
      is_sequence ? pre_tokenizer.at("pretokenizers").items() : std::vector{pre_tokenizer};
  if (steps.empty()) pre_tokenizer.at("pretokenizers").refuse("must end in ByteLevel");
  std::vector<SplitStage> stages;
  for (const JsonView& step : steps) {
    const JsonView type = step.at("type");
    const bool is_last = &step == &steps.back();
    if (type.text() != "Split" && type.text() != "ByteLevel")
      type.refuse("is a pre-tokenizer that is not supported");
    if (is_last != (type.text() == "ByteLevel"))
      type.refuse(is_last ? "cannot stand at the end; ByteLevel must" : "can only stand at the end");
    if (is_last)
      add_byte_level(step, stages);
    else
      stages.push_back(read_split(step));
  }
  return stages;
}

}  // namespace rondo

#include "datasets/tokenizer/normalize/read_normalizer.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "datasets/tokenizer/split/split_stages.h"

namespace rondo {
namespace {

using Kind = NormalizerStep::Kind;

constexpr std::array<std::pair<std::string_view, UnicodeForm>, 4> kForms = {{{"NFC", UnicodeForm::nfc},
                                                                             {"NFD", UnicodeForm::nfd},
                                                                             {"NFKC", UnicodeForm::nfkc},
                                                                             {"NFKD", UnicodeForm::nfkd}}};
constexpr std::array<std::pair<std::string_view, Kind>, 3> kPlain = {
    {{"Lowercase", Kind::lowercase}, {"StripAccents", Kind::strip_accents}, {"ByteLevel", Kind::bytes}}};

void read(const JsonView& view, int depth, std::vector<NormalizerStep>& steps) {
  const JsonView type = view.at("type");
  const std::string& name = type.text();
  if (name == "Sequence") {
    if (depth == kMaxNestedSteps) return view.refuse("is nested too deeply");
    for (const JsonView& step : view.at("normalizers").items()) {
      if (steps.size() >= kMaxSteps) return step.refuse(fmt::format("follows {} others", kMaxSteps));
      read(step, depth + 1, steps);
    }
    return;
  }
  NormalizerStep step{.meaning = name};
  for (const auto& [known, form] : kForms) {
    if (name != known) continue;
    step.form = form;
    return steps.push_back(std::move(step));
  }
  for (const auto& [known, kind] : kPlain) {
    if (name != known) continue;
    step.kind = kind;
    return steps.push_back(std::move(step));
  }
  if (name == "Strip") {
    step.kind = Kind::strip;
    step.strip_left = view.flag("strip_left", true);
    step.strip_right = view.flag("strip_right", true);
    step.meaning = fmt::format("Strip {} {}", step.strip_left, step.strip_right);
  } else if (name == "Prepend") {
    step.kind = Kind::prepend;
    step.content = view.at("prepend").text();
    step.meaning = "Prepend " + step.content;
  } else if (name == "Replace") {
    FilePattern pattern = read_pattern(view.at("pattern"));
    step.kind = Kind::replace;
    step.pattern = std::move(pattern.pattern);
    step.place = view.place();
    step.content = view.at("content").text();
    step.meaning = fmt::format("Replace {} {}", step.content, pattern.meaning);
  } else {
    if (!name.empty()) type.refuse("is a normalizer that is not supported");
    return;
  }
  steps.push_back(std::move(step));
}

}  // namespace

std::vector<NormalizerStep> read_normalizer(const JsonView& normalizer) {
  std::vector<NormalizerStep> steps;
  read(normalizer, 0, steps);
  return steps;
}

}  // namespace rondo

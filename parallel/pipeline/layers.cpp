// A layout's text is expanded letter by letter, then split at its bars.
#include "parallel/pipeline/layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "parallel/pipeline/action.h"
#include "support/text/numbers.h"

namespace rondo::pipeline {
namespace {

constexpr std::size_t kMaxLetters = 1'000'000, kDeepestGroup = 16;

// Expands letters, groups and repetitions from the front of `text`, up to a closing bracket or its
// end. Returns "" or the rule that `text` breaks.
std::string expand(std::string_view& text, std::string& letters, std::size_t depth) {
  if (depth > kDeepestGroup) return fmt::format("must nest at most {} brackets", kDeepestGroup);
  std::string part;  // the operand of a following *
  while (!text.empty() && text.front() != ')') {
    const char letter = text.front();
    text.remove_prefix(1);
    if (letter == ',' || letter == ' ') continue;
    if (letter == '(') {
      part.clear();
      const std::string rule = expand(text, part, depth + 1);
      if (!rule.empty()) return rule;
      if (text.empty()) return "must close its brackets";
      text.remove_prefix(1);
    } else if (letter == '*') {
      const std::string_view digits =
          text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
      const auto times = number_in<std::int32_t>(digits, 1, kMaxStages);
      if (!times || part.empty())
        return fmt::format("must have a letter or a group before each *, and 1 to {} after it", kMaxStages);
      text.remove_prefix(digits.size());
      if (letters.size() + part.size() * *times > kMaxLetters) return "must have fewer layers";
      for (std::int32_t i = 1; i < *times; ++i) letters += part;
      part.clear();
      continue;
    } else if (std::string_view("EtmL|").find(letter) != std::string_view::npos) {
      part = letter;
    } else {
      return "must consist of E, t, m, L, | and repetitions such as t*3 and (tt|)*29";
    }
    if (letters.size() + part.size() > kMaxLetters) return "must have fewer layers";
    letters += part;
  }
  return "";
}

std::string repeated(char letter, std::int32_t times) {
  if (times == 0) return "";
  return times == 1 ? std::string(1, letter) : fmt::format("{}*{}", letter, times);
}

}  // namespace

double cost_of(const StageLayers& stage, const EndCosts& ends) {
  return stage.layers + stage.prediction_layers + (stage.embedding ? ends.embedding : 0) +
         (stage.loss ? ends.head : 0);
}

std::string read_layout(std::string_view text, std::vector<StageLayers>& stages) {
  std::string letters;
  std::string rule = expand(text, letters, 0);
  if (rule.empty() && !text.empty()) rule = "must open its brackets";
  if (!rule.empty()) return rule;
  std::string order = letters;
  std::erase(order, '|');
  const std::size_t layers = std::count(order.begin(), order.end(), 't');
  const std::size_t predictions = std::count(order.begin(), order.end(), 'm');
  if (layers == 0 || order != "E" + std::string(layers, 't') + std::string(predictions, 'm') + "L")
    return "must be one E, layers t, optional layers m of multi-token prediction, and one L, in this order";
  stages.assign(1, {});
  for (const char letter : letters) {
    if (letter == 'E') stages.back().embedding = true;
    if (letter == 't') ++stages.back().layers;
    if (letter == 'm') ++stages.back().prediction_layers;
    if (letter == 'L') stages.back().loss = true;
    if (letter == '|') stages.emplace_back();
  }
  if (stages.size() > kMaxStages) return fmt::format("must have at most {} stages", kMaxStages);
  return "";
}

std::string print_layout(const std::vector<StageLayers>& stages) {
  std::string text;
  for (std::size_t first = 0, end = 0; first < stages.size(); first = end) {
    const StageLayers& stage = stages[first];
    const std::string letters = (stage.embedding ? "E" : "") + repeated('t', stage.layers) +
                                repeated('m', stage.prediction_layers) + (stage.loss ? "L" : "");
    while (end < stages.size() && stages[end] == stage) ++end;
    const bool last = end == stages.size();
    const std::size_t bars = end - first - (last ? 1 : 0);
    if (bars > 0) text += bars > 1 ? fmt::format("({}|)*{}", letters, bars) : letters + "|";
    if (last) text += letters;
  }
  return text;
}

std::vector<StageLayers> split_layers(std::int32_t layers, std::int32_t stages, const EndCosts& ends) {
  std::vector<StageLayers> split(stages);
  split.front().embedding = split.back().loss = true;
  for (std::int32_t stage = 1; stage + 1 < stages; ++stage) split[stage].layers = 1;
  std::int32_t left = layers - std::max(stages - 2, 0);
  if (left < 0) return {};
  // Layers are equal, so each goes to the stage of the lowest cost.
  for (; left > 0; --left)
    ++std::min_element(split.begin(), split.end(), [&](const StageLayers& a, const StageLayers& b) {
        return cost_of(a, ends) < cost_of(b, ends);
      })->layers;
  return split;
}

}  // namespace rondo::pipeline

// A file is read line by line, and a line cell by cell; action.h parses an action. Cells are
// written in the columns of their time steps.
#include "parallel/pipeline/csv.h"

#include <fmt/format.h>

#include "parallel/pipeline/lower.h"
#include "support/error.h"
#include "support/printable.h"

namespace rondo::pipeline {
namespace {

constexpr std::string_view kOverlap = ")OVERLAP_F_B";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

// Removes `text` up to and including `end`, and returns the part before `end`.
std::string_view next_part(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

// Appends the actions of a cell. Returns "" or the rule that the cell breaks.
std::string read_cell(std::string_view cell, std::vector<Action>& actions) {
  Action first, second;
  if (!cell.starts_with('(')) {
    const std::string rule = read_action(cell, first);
    if (rule.empty()) actions.push_back(first);
    return rule;
  }
  const std::string rule = "must be a pair of a forward and a backward, such as (0F3;1B2)OVERLAP_F_B";
  if (!cell.ends_with(kOverlap)) return rule;
  std::string_view pair = cell.substr(1, cell.size() - 1 - kOverlap.size());
  const std::string_view forward = trimmed(next_part(pair, ';')), backward = trimmed(pair);
  if (!read_action(forward, first).empty() || !read_action(backward, second).empty()) return rule;
  if (first.type != ActionType::forward || !makes_input_gradient(second.type)) return rule;
  first.with_next = true;
  actions.insert(actions.end(), {first, second});
  return "";
}

}  // namespace

Program read_csv(std::string_view text, const std::string& place) {
  std::vector<std::vector<Action>> ranks;
  while (!text.empty()) {
    std::string_view line = next_part(text, '\n');
    if (trimmed(line).empty() && trimmed(text).empty()) break;  // blank lines at the end
    std::vector<Action> actions;
    for (std::size_t column = 1; !line.empty(); ++column) {
      const std::string_view cell = trimmed(next_part(line, ','));
      if (cell.empty()) continue;
      const std::string rule = read_cell(cell, actions);
      if (!rule.empty())
        throw Error(ExitCode::config, fmt::format("{}: row {}, column {}: \"{}\" {}", place, ranks.size() + 1,
                                                  column, printable(cell, 40), rule));
    }
    ranks.push_back(std::move(actions));
  }
  return program_of(std::move(ranks), place);
}

std::string to_csv(const Program& program) {
  const bool aligned = !program.has_messages();
  const TimeSteps steps = aligned ? time_steps(program) : TimeSteps{};
  std::string text;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const std::vector<Action>& actions = program.ranks[r];
    std::int64_t column = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const std::int64_t step = aligned ? steps[r][i] : column + (i > 0 ? 1 : 0);
      text.append(step - column, ',');
      column = step;
      if (actions[i].with_next) {
        text += '(' + print(actions[i]) + ';' + print(actions[i + 1]);
        text += kOverlap;
        ++i;
      } else {
        text += print(actions[i]);
      }
    }
    text += '\n';
  }
  return text;
}

}  // namespace rondo::pipeline

// One cell is the duration of the shortest action; longer actions take several cells.
#include "parallel/pipeline/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace rondo::pipeline {
namespace {

// ANSI background and foreground by type: F, B, I, W.
constexpr const char* kInks[] = {"\033[44;97m", "\033[42;30m", "\033[46;30m", "\033[43;30m"};

std::string label(const Span& span, bool with_stage) {
  const auto text = [&](const Action& action) {
    return with_stage ? print(action) : fmt::format("{}{}", name_of(action.type), action.microbatch);
  };
  return text(span.action) + (span.action.with_next ? "+" + text(span.together) : "");
}

}  // namespace

std::string to_grid(const Timeline& timeline, std::int64_t columns, bool color) {
  const std::size_t ranks = timeline.busy.size();
  bool with_stage = false;
  double shortest = timeline.end;
  std::vector<std::int32_t> stage(ranks, -1);
  for (const Span& span : timeline.spans) {
    if (stage[span.rank] < 0) stage[span.rank] = span.action.stage;
    with_stage = with_stage || stage[span.rank] != span.action.stage || span.action.with_next;
    if (span.end > span.begin) shortest = std::min(shortest, span.end - span.begin);
  }
  if (shortest <= 0) return "";
  const auto cell_of = [&](double time) { return std::llround(time / shortest); };
  std::int64_t width = 2;  // characters of a cell, enough for every label
  for (const Span& span : timeline.spans) {
    const std::int64_t cells = std::max<std::int64_t>(cell_of(span.end) - cell_of(span.begin), 1);
    width = std::max<std::int64_t>(width, (std::ssize(label(span, with_stage)) + cells) / cells);
  }
  if (12 + cell_of(timeline.end) * width > columns) return "";
  std::vector<std::string> lines(ranks);
  std::vector<std::int64_t> at(ranks);
  for (const Span& span : timeline.spans) {
    std::string& line = lines[span.rank];
    const std::int64_t begin = cell_of(span.begin) * width, end = cell_of(span.end) * width;
    if (begin == end) continue;  // takes no time
    const std::string text = fmt::format("{:<{}}", label(span, with_stage), end - begin - 1);
    line.append(begin - at[span.rank], color ? ' ' : '.');
    line += color ? kInks[static_cast<std::size_t>(span.action.type)] + text + "\033[0m " : text + " ";
    at[span.rank] = end;
  }
  std::string out;
  for (std::string& line : lines) line.resize(line.find_last_not_of(' ') + 1);
  for (std::size_t rank = 0; rank < ranks; ++rank) out += fmt::format("rank {:>3}  {}\n", rank, lines[rank]);
  return out;
}

}  // namespace rondo::pipeline

// A character of a plot is two dots wide, so a curve has twice as many points as columns. Each
// point has the lowest and highest value of its steps. A quantity that never changes is not drawn.
#include "runs/report_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runs/compare_runs.h"
#include "runs/curves.h"
#include "runs/text_plot.h"
#include "support/text/size_text.h"

namespace rondo {
namespace {

std::string head_line(const RunRecord& run, const std::string& name) {
  const StepMetrics& last = run.log.lines.back();
  const Speed speed = speed_of(run.log.lines);
  return fmt::format("{}: {}\n  step {} of {}, {} tokens; {}{:.1f} tokens/s a rank, {:.4f} GiB\n", name,
                     run.state(), last.step, run.setting("training.steps"), count_text(last.tokens_seen),
                     run.executor().empty() ? "" : run.executor() + ", ", speed.tokens_per_s,
                     speed.peak_memory_gib);
}

PlotLine plot_line(const Quantity& quantity, const RunLog& log, const std::string& name, int columns) {
  PlotLine line{name, {}};
  for (const LineGroup& group : line_groups(log.lines.size(), 2 * static_cast<std::size_t>(columns))) {
    const auto lines = std::span(log.lines).subspan(group.first, group.last - group.first);
    if (const auto extent = extent_of(quantity, lines))
      line.points.push_back(
          {static_cast<double>(lines.back().step), extent->low, extent->high, extent->mean});
  }
  return line;
}

// Returns whether all lines of all runs have the same value.
bool is_constant(const std::vector<PlotLine>& lines) {
  const double value = lines[0].points.empty() ? 0 : lines[0].points[0].low;
  for (const PlotLine& line : lines)
    for (const PlotPoint& point : line.points)
      if (point.low != value || point.high != value) return false;
  return true;
}

}  // namespace

std::string plot_of(std::string_view name, const RunRecord& run, int columns, bool color) {
  for (const Quantity& quantity : quantities())
    if (quantity.name == name)
      return text_plot({plot_line(quantity, run.log, "", columns)}, {.columns = columns, .color = color});
  return "";
}

std::string report_text(const std::vector<RunRecord>& runs, int columns, bool color) {
  const std::vector<std::string> names = short_names(runs);
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i) text += head_line(runs[i], names[i]);
  for (const Quantity& quantity : quantities()) {
    std::vector<PlotLine> lines;
    for (std::size_t i = 0; i < runs.size(); ++i)
      lines.push_back(plot_line(quantity, runs[i].log, names[i], columns));
    const std::string plot =
        is_constant(lines)
            ? ""
            : text_plot(lines, {.columns = columns, .color = color, .log_y = quantity.on_log_axis});
    if (plot.empty()) continue;
    const std::string unit = *quantity.unit == 0 ? "" : fmt::format(" ({})", quantity.unit);
    text +=
        fmt::format("\n{}{}{}\n{}", quantity.title, unit, quantity.on_log_axis ? ", logarithmic" : "", plot);
  }
  return text;
}

}  // namespace rondo

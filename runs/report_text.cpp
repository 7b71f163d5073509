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
  const StepMetrics& last = run.log.steps.last();
  const Speed speed = speed_of(run.log.steps);
  const std::optional<TimeSpent> time = time_spent(run);
  return fmt::format("{}: {}\n  step {} of {}, {} tokens; {}{:.1f} tokens/s a rank, {:.4f} GiB\n", name,
                     run.state(), last.step, run.setting("training.steps"), count_text(last.tokens_seen),
                     run.executor().empty() ? "" : run.executor() + ", ", speed.tokens_per_s,
                     speed.peak_memory_gib) +
         (time ? "  " + goodput_text(*time) + "\n" : "");
}

PlotLine plot_line(std::size_t quantity, const RunLog& log, const std::string& name, int columns) {
  PlotLine line{name, {}};
  for (const LineGroup& group : merged(log.steps.groups(), 2 * static_cast<std::size_t>(columns)))
    if (const Extent& extent = group.extents[quantity]; extent.count > 0)
      line.points.push_back({static_cast<double>(group.last.step), extent.low, extent.high, extent.mean()});
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
  return text_plot({plot_line(quantity_named(name), run.log, "", columns)},
                   {.columns = columns, .color = color});
}

std::string report_text(const std::vector<RunRecord>& runs, int columns, bool color) {
  const std::vector<std::string> names = short_names(runs);
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i) text += head_line(runs[i], names[i]);
  for (std::size_t q = 0; q < kQuantities; ++q) {
    const Quantity& quantity = quantities()[q];
    std::vector<PlotLine> lines;
    for (std::size_t i = 0; i < runs.size(); ++i)
      lines.push_back(plot_line(q, runs[i].log, names[i], columns));
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

// Joins the means of neighbouring points, so that a steep curve has no gaps and an outlier stands
// out. A character that several lines cross has the dots of all lines and the colour of the last.
#include "runs/text_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/utf8.h"

namespace rondo {
namespace {

constexpr int kLabelColumns = 10;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // 0 at `low`, 1 at `high`.
  double place(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

struct Axes {
  bool log_y;
  Range x, y;

  double scaled(double value) const { return log_y ? std::log10(value) : value; }
  double unscaled(double value) const { return log_y ? std::pow(10, value) : value; }
  bool shows(const PlotPoint& point) const { return !log_y || point.low > 0; }
};

Axes axes_of(const std::vector<PlotLine>& lines, bool log_y) {
  Axes axes{log_y, {}, {}};
  for (const PlotLine& line : lines)
    for (const PlotPoint& point : line.points) {
      if (!axes.shows(point)) continue;
      axes.x.add(point.x);
      axes.y.add(axes.scaled(point.low));
      axes.y.add(axes.scaled(point.high));
    }
  return axes;
}

class Canvas {
 public:
  Canvas(int columns, int rows) : columns_(columns), rows_(rows) {
    cells_.resize(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows));
  }

  void draw(const PlotLine& line, const Axes& axes, int color) {
    int before_x = -1, before_y = 0;
    for (const PlotPoint& point : line.points) {
      if (!axes.shows(point)) continue;
      const int x = dot(axes.x.place(point.x), 2 * columns_);
      const int low = dot(axes.y.place(axes.scaled(point.low)), 4 * rows_);
      const int high = dot(axes.y.place(axes.scaled(point.high)), 4 * rows_);
      const int mean = dot(axes.y.place(axes.scaled(point.mean)), 4 * rows_);
      if (before_x >= 0) join(before_x, before_y, x, mean, color);
      for (int y = low; y <= high; ++y) set(x, y, color);
      before_x = x;
      before_y = mean;
    }
  }

  std::string row(int from_top, bool colored) const {
    std::string text;
    int color = -1;
    for (int column = 0; column < columns_; ++column) {
      const Cell& cell = cells_[place(from_top, column)];
      if (colored && cell.dots != 0 && cell.color != color) {
        color = cell.color;
        text += fmt::format("\033[{}m", kColors[static_cast<std::size_t>(color) % std::size(kColors)]);
      }
      if (cell.dots == 0) {
        text += ' ';
      } else {
        append_utf8(static_cast<char32_t>(0x2800 + cell.dots), text);
      }
    }
    while (text.ends_with(' ')) text.pop_back();
    return color >= 0 ? text + "\033[0m" : text;
  }

  static std::string colored_name(const std::string& name, int color) {
    return fmt::format("\033[{}m{}\033[0m", kColors[static_cast<std::size_t>(color) % std::size(kColors)],
                       name);
  }

 private:
  struct Cell {
    unsigned dots = 0;  // bits of U+2800
    int color = 0;
  };
  std::size_t place(int from_top, int column) const {
    return static_cast<std::size_t>(from_top) * static_cast<std::size_t>(columns_) +
           static_cast<std::size_t>(column);
  }
  static constexpr int kColors[] = {34, 33, 32, 35, 36, 31};

  static int dot(double place, int dots) {
    return std::clamp(static_cast<int>(std::lround(place * (dots - 1))), 0, dots - 1);
  }

  void join(int x0, int y0, int x1, int y1, int color) {
    const int steps = std::max(std::abs(x1 - x0), std::abs(y1 - y0));
    for (int i = 1; i < steps; ++i) set(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps, color);
  }

  void set(int x, int y, int color) {  // y from the bottom
    constexpr unsigned kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const int down = 4 * rows_ - 1 - y;
    Cell& cell = cells_[place(down / 4, x / 2)];
    cell.dots |= kBits[down % 4][x % 2];
    cell.color = color;
  }

  int columns_, rows_;
  std::vector<Cell> cells_;
};

std::string plot(const std::vector<PlotLine>& lines, const Axes& axes, const PlotStyle& style) {
  const int columns = style.columns - kLabelColumns - 2;
  Canvas canvas(columns, style.rows);
  for (std::size_t i = 0; i < lines.size(); ++i) canvas.draw(lines[i], axes, static_cast<int>(i));
  std::string text;
  for (int row = 0; row < style.rows; ++row) {
    const bool top = row == 0, bottom = row == style.rows - 1;
    const std::string label =
        top || bottom ? fmt::format("{:.4g}", axes.unscaled(top ? axes.y.high : axes.y.low)) : std::string();
    text += fmt::format("{:>{}} |{}\n", label, kLabelColumns, canvas.row(row, style.color));
  }
  const std::string first = fmt::format("{:.4g}", axes.x.low), last = fmt::format("{:.4g}", axes.x.high);
  const int gap = columns - static_cast<int>(first.size() + last.size());
  return text + std::string(kLabelColumns + 2, ' ') + first + std::string(std::max(gap, 1), ' ') + last +
         "\n";
}

}  // namespace

std::string text_plot(const std::vector<PlotLine>& lines, const PlotStyle& style) {
  const Axes axes = axes_of(lines, style.log_y);
  if (axes.x.high < axes.x.low) return "";
  std::string text;
  if (style.color || lines.size() == 1) {
    if (lines.size() > 1)
      for (std::size_t i = 0; i < lines.size(); ++i)
        text += (i > 0 ? "  " : std::string(kLabelColumns + 2, ' ')) +
                Canvas::colored_name(lines[i].name, static_cast<int>(i)) + (i + 1 < lines.size() ? "" : "\n");
    return text + plot(lines, axes, style);
  }
  for (const PlotLine& line : lines) {
    if (line.points.empty()) continue;
    text += std::string(kLabelColumns + 2, ' ') + line.name + "\n" + plot({line}, axes, style);
  }
  return text;
}

}  // namespace rondo

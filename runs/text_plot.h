// Curves in a terminal, drawn with braille: 2 x 4 dots a character.
//
//   8.124 |⡇
//         |⠘⠢⢄⡀
//   1.951 |    ⠈⠉⠒⠒⠤⠤⠤⣀⣀⣀
//          1            200
#pragma once

#include <string>
#include <vector>

namespace rondo {

struct PlotPoint {
  double x = 0, low = 0, high = 0, mean = 0;  // a line from low to high, through `mean`; finite
};

struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;  // x rises
};

struct PlotStyle {
  int columns = 80;  // of the whole plot, at least 24
  int rows = 8;      // of the curve, at least 2
  bool color = false;
  bool log_y = false;  // only values above 0 are drawn then
};

// Lines of text, each with a newline; none where there is no point. With colour the lines share one plot, and
// without it each has its own, on the same axes.
std::string text_plot(const std::vector<PlotLine>& lines, const PlotStyle& style);

}  // namespace rondo

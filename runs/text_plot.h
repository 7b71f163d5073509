// Draws curves in a terminal with braille characters: 2 x 4 dots each.
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
  double x = 0, low = 0, high = 0, mean = 0;  // drawn as a line from low to high; all finite
};

struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;  // x is ascending
};

struct PlotStyle {
  int columns = 80;  // of the whole plot, at least 24
  int rows = 8;      // of the curve, at least 2
  bool color = false;
  bool log_y = false;  // draws only values above 0
};

// Returns lines of text, each with a newline; "" without points. With colour all lines share one
// plot. Without colour each line has its own plot, on the same axes.
std::string text_plot(const std::vector<PlotLine>& lines, const PlotStyle& style);

}  // namespace rondo

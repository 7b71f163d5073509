#include "runs/text_plot.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

PlotLine line(const std::string& name, const std::vector<double>& values) {
  PlotLine plotted{name, {}};
  for (const double value : values)
    plotted.points.push_back({static_cast<double>(plotted.points.size() + 1), value, value, value});
  return plotted;
}

}  // namespace

TEST_CASE("a rising line goes from the lower left to the upper right, between the labels of its axes") {
  CHECK(text_plot({line("", {0, 1, 2, 3, 4, 5, 6, 7})}, {.columns = 24, .rows = 2}) ==
        "         7 |      ⢀⣀⠤⠤⠒⠊\n"
        "         0 |⣀⡠⠤⠔⠒⠉⠁\n"
        "            1          8\n");
}

TEST_CASE("an outlier is drawn as a line from the lowest to the highest value") {
  PlotLine plotted = line("", {1, 1, 1});
  plotted.points[1].high = 9;
  CHECK(text_plot({plotted}, {.columns = 24, .rows = 2}) ==
        "         9 |      ⡇\n"
        "         1 |⣀⣀⣀⣀⣀⣀⣇⣀⣀⣀⣀⣀\n"
        "            1          3\n");
}

TEST_CASE("without colour each line has a plot, with colour they share one") {
  const std::vector<PlotLine> lines = {line("first", {1, 2}), line("second", {3, 4})};
  const std::string plain = text_plot(lines, {.columns = 30, .rows = 2});
  CHECK(plain.find('\033') == std::string::npos);
  CHECK_THAT(plain, ContainsSubstring("first\n") && ContainsSubstring("second\n"));
  CHECK(std::count(plain.begin(), plain.end(), '\n') == 2 * 4);
  const std::string colored = text_plot(lines, {.columns = 30, .rows = 2, .color = true});
  CHECK(std::count(colored.begin(), colored.end(), '\n') == 4);
  CHECK_THAT(colored, ContainsSubstring("\033[34mfirst") && ContainsSubstring("\033[33msecond"));
}

TEST_CASE("one value, and nothing at all, can be plotted") {
  CHECK(text_plot({line("", {})}, {}) == "");
  CHECK_THAT(text_plot({line("", {2.5})}, {.columns = 24, .rows = 2}), ContainsSubstring("       2.5 |"));
  CHECK(text_plot({line("", {0, -1})}, {.columns = 24, .rows = 2, .log_y = true}) == "");
}

}  // namespace rondo

#include "parallel/pipeline/picture.h"

#include <catch2/catch_test_macros.hpp>

#include "parallel/pipeline/grid.h"
#include "parallel/pipeline/lower.h"
#include "parallel/pipeline/schedules.h"
#include "tests/occurrences.h"

namespace rondo::pipeline {
namespace {

struct Simulated {
  Program program;
  Proof proof;
  Timeline timeline;
  Drawing drawing(const std::string& title) const { return {title, program, proof, timeline}; }
};
Simulated simulated(const std::string& name, const PipelineShape& shape, const Times& times = {}) {
  Simulated result{make_program(schedule_named(name), shape), {}, {}};
  const Program lowered = lower(result.program);
  result.proof = prove(lowered);
  result.timeline = simulate(lowered, times, true);
  return result;
}

TEST_CASE("the picture has a box with its time for each compute action, and the share of bubbles") {
  const std::string svg = to_svg(simulated("1F1B", {4, 1, 8}).drawing("1F1B"));
  CHECK(occurrences(svg, "<title>") == 4 * 8 * 2);
  CHECK(occurrences(svg, "<title>3B0, 4 to 6</title>") == 1);
  CHECK(svg.find("4 ranks, 1 stage a rank, 8 microbatches, bubbles 27.3 % of the step") != std::string::npos);
  CHECK(occurrences(to_svg(simulated("DualPipeV", {2, 2, 4}).drawing("DualPipeV")), "<title>") ==
        4 * 4 + 4 * 4 + 5);  // forwards, then whole and split backwards
}

TEST_CASE("titles are escaped in the picture and the page, and the page loads nothing") {
  const Simulated schedule = simulated("ZBVZeroBubble", {3, 2, 6});
  const std::string evil = "</text></svg><script>alert(1)</script>\" &";
  CHECK(to_svg(schedule.drawing(evil)).find("<script") == std::string::npos);
  const std::string page = to_page(schedule.drawing(evil));
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("alert(1)") != std::string::npos);
  for (const char* const word :
       {"https:", "src=", "href=", "@import", "url(", "fetch(", "@TITLE@", "@EDGES@"})
    CHECK(occurrences(page, word) == 0);
  CHECK(occurrences(page, "http:") == 1);  // the namespace of SVG
  CHECK(page == to_page(schedule.drawing(evil)));
}

TEST_CASE("the grid has one line per rank, and is empty where it is too wide") {
  const Timeline timeline = simulated("1F1B", {2, 1, 3}).timeline;
  CHECK(to_grid(timeline, 100, false) ==
        "rank   0  F0 F1 ......B0    F2 B1    ...B2\n"
        "rank   1  ...F0 B0    F1 B1    F2 B2\n");
  CHECK(to_grid(timeline, 30, false).empty());
  // A stage without layers takes no time and no column.
  CHECK(to_grid(simulated("1F1B", {2, 1, 2}, {{{1, 1, 1}, {0, 0, 0}}, {0}}).timeline, 100, false) ==
        "rank   0  F0 F1 B0    B1\n"
        "rank   1  \n");
  CHECK(to_grid(simulated("ZBVZeroBubble", {2, 2, 1}).timeline, 100, false) ==
        "rank   0  0F0 ........3F0 3I0 3W0 ........0I0 0W0\n"
        "rank   1  ....1F0 2F0 ........2I0 2W0 1I0 1W0\n");
}

}  // namespace
}  // namespace rondo::pipeline

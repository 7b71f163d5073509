// Segments of hand-written graphs: their begins and ends, their description, and those that the
// verifier refuses.
#include "compiler/ops/segments.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "compiler/text/text.h"
#include "compiler/verify/verify.h"
#include "support/error.h"

using namespace rondo;
using namespace rondo::ir;

namespace {

const std::string kHead = "graph g\nbatch %0: f32[8] x\n";
const std::string kExp = "  %1: f32[8] = aten.exp.default(%0)\n";
const std::string kRead = "  aten._local_scalar_dense.default(%1)\n";
const std::string kMore = "  %2: f32[8] = aten.neg.default(%1)\n";
const std::string kReturnsY = "return\n  y = %2\n";

Graph parsed(const std::string& text) { return parse(text, "segments.ir"); }

std::string breach_of_text(const std::string& text) {
  try {
    verify(parsed(text), "parse");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::graph);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a graph without a host read is one segment with its return") {
  const Graph graph = parsed(kHead + "forward\n" + kExp + kMore + kReturnsY);
  CHECK(host_syncs(graph).empty());
  CHECK(find_segments(graph) == std::vector<Segment>{{0, 3}});
  CHECK(describe_segments(graph) == "1 segment");
}

TEST_CASE("host reads are between segments, and are named with module and phase") {
  const Graph graph = parsed(kHead + "forward\n" + kExp + "forward moe.dispatch\n" + kRead + "backward\n" +
                             kMore + kReturnsY);
  CHECK(host_syncs(graph) == std::vector<std::int32_t>{1});
  CHECK(find_segments(graph) == std::vector<Segment>{{0, 1}, {2, 4}});
  CHECK(describe_segments(graph) ==
        "2 segments, cut at aten._local_scalar_dense.default in moe.dispatch (forward)");
}

TEST_CASE("the first eight of many cuts are named") {
  std::string text = kHead + "forward\n" + kExp;
  for (int i = 0; i < 11; ++i) text += kRead;
  const std::string words = describe_segments(parsed(text + kMore + kReturnsY));
  CHECK(words.starts_with("2 segments, cut at aten._local_scalar_dense.default (forward), "));
  CHECK(words.ends_with(" and 3 more"));
}

TEST_CASE("a graph of host reads only has no segment") {
  const Graph graph = parsed(kHead + "forward\n  aten._local_scalar_dense.default(%0)\nreturn\n  y = %0\n");
  CHECK(find_segments(graph).empty());
  CHECK(describe_segments(graph) == "0 segments, cut at aten._local_scalar_dense.default (forward)");
}

TEST_CASE("the groups of collectives are counted in each marked segment") {
  const auto reduce = [](const std::string& from, const std::string& to, const std::string& group) {
    return "  %" + to + ": f32[8] = _c10d_functional.all_reduce.default(%" + from + ", \"sum\", \"" + group +
           "\")\n";
  };
  const std::string text = kHead + "forward\n" + reduce("0", "1", "dp") + reduce("1", "2", "dp") + kRead +
                           reduce("2", "3", "dp") + reduce("3", "4", "tp") + "return\n  y = %4\n";
  Graph graph = parsed(text);
  CHECK(most_groups_of_a_segment(graph) == 0);
  graph.segments = {{0, 2}};
  CHECK(most_groups_of_a_segment(graph) == 1);
  graph.segments = find_segments(graph);
  CHECK(most_groups_of_a_segment(graph) == 2);
}

TEST_CASE("marked segments survive the text") {
  Graph graph = parsed(kHead + "forward\n" + kExp + kRead + kMore + kReturnsY);
  graph.segments = find_segments(graph);
  const std::string text = print(graph);
  CHECK(text.find("segment\nforward\n" + kExp + "eager\n" + kRead + "segment\n" + kMore + "return\n") !=
        std::string::npos);
  CHECK(parsed(text).segments == graph.segments);
  CHECK(print(parsed(text)) == text);
}

TEST_CASE("a segment that ends before the return survives the text") {
  const std::string text = print(parsed(kHead + "segment\nforward\n" + kExp + kMore + "eager\n" + kReturnsY));
  CHECK(parsed(text).segments == std::vector<Segment>{{0, 2}});
  CHECK(print(parsed(text)) == text);
}

TEST_CASE("the verifier refuses segments that cannot be recorded, with the reason") {
  CHECK(breach_of_text(kHead + "segment\nforward\n" + kExp + kRead + kMore + kReturnsY)
            .find("segments_can_be_recorded after parse: node 1 (aten._local_scalar_dense.default) reads on "
                  "the host "
                  "inside of a segment") != std::string::npos);
  CHECK(breach_of_text(kHead + "segment\nforward\n" + kExp + "eager\n" + kMore + kReturnsY)
            .find("node 1 (aten.neg.default) is outside of all segments") != std::string::npos);
  CHECK(breach_of_text(kHead +
                       "segment\nforward\n  %1: f32[8] = _c10d_functional.all_reduce.default(%0, \"sum\", "
                       "\"dp\")\nsegment\n"
                       "  %2: f32[8] views %1 = _c10d_functional.wait_tensor.default(%1)\n" +
                       kReturnsY)
            .find("waits for %1, which another segment started") != std::string::npos);
  CHECK(breach_of_text(kHead + "segment\nsegment\nforward\n" + kExp + kMore + kReturnsY)
            .find("segment 0 is nodes 0 to 0 of 3") != std::string::npos);
  Graph graph = parsed(kHead + "forward\n" + kExp + kMore + kReturnsY);
  graph.segments = {{1, 3}, {0, 1}};
  CHECK_THROWS_AS(verify(graph, "parse"), Error);
  graph.segments = {{0, 4}};
  CHECK_THROWS_AS(verify(graph, "parse"), Error);
}

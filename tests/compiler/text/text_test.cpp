// The text form of graphs: printing, parsing and parse errors.
#include "compiler/text/text.h"

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "support/error.h"

using namespace rondo;
using namespace rondo::ir;

namespace {

// Each construct of the grammar once, as printed.
constexpr std::string_view kSample = R"(graph train_step
block layers.0
block "a b"

parameter %0: f32[256,256] layers.0.wq.weight bucket layers.0
optimizer %1: f32[] "a name, quoted \"so\"\n"
batch %2: i64[4,128]{1,4} tokens

forward layers.0.attention
  %3: f32[256,256]{1,256} views %0 = aten.t.default(%0)
  %10: bf16[2,0], %11: f32[] = rondo.split([%0, none, %3], values[], [1, -2], [], [0.5, inf], doubles[], [true], bools[])
forward
  rondo.check.default(none, true, -9223372036854775808, "\x01", .strided, ."a-b", bf16) by check
update optimizer
  %5: f32[256,256] writes %0 = aten.mul_.Tensor(%0, wrapped(-0.0), wrapped(1e+300), wrapped(3), wrapped(false)) by reinplace
return
  loss = %11
  "new weight" = %5 -> layers.0.wq.weight
)";

std::string error_of(std::string_view text) {
  try {
    parse(text, "x.ir");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::graph);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("printed text parses back to the same text") {
  const Graph graph = parse(kSample, "sample.ir");
  CHECK(print(graph) == kSample);
  CHECK(graph.outputs[1].updates == 0);
  CHECK(graph.blocks == std::vector<std::string>{"layers.0", "a b"});
  CHECK(graph.inputs[0].bucket == "layers.0");
  CHECK(graph.nodes[2].phase == Phase::forward);
  CHECK(graph.nodes[2].module.empty());
  CHECK(graph.nodes[3].module == "optimizer");
  CHECK(graph.value(2).type.strides == std::vector<std::int64_t>{1, 4});
}

TEST_CASE("comments, blank lines and wide spaces are parsed and dropped") {
  const Graph graph = parse("\n# hello\ngraph g # x\n\n  batch %0 : f32[ 2 , 3 ] x\nreturn\n", "x.ir");
  CHECK(print(graph) == "graph g\n\nbatch %0: f32[2,3] x\n\nforward\nreturn\n");
}

TEST_CASE("every double keeps its bits") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 5000; ++i) {
    std::uint64_t bits = random();
    if (i % 4 == 0) bits |= 0x7ff0000000000000u;  // nan and inf
    if (i % 4 == 1) bits &= 0x800fffffffffffffu;  // denormal
    Graph graph;
    graph.name = "g";
    graph.nodes.push_back(
        {.op = "x", .args = {std::bit_cast<double>(bits)}, .results = {}, .module = {}, .origin = {}});
    const Graph back = parse(print(graph), "x.ir");
    REQUIRE(std::bit_cast<std::uint64_t>(std::get<double>(back.nodes[0].args[0])) == bits);
  }
}

TEST_CASE("a parse error names place, problem and expectation") {
  const std::string head = "graph g\nbatch %0: f32[2] x\n";
  CHECK(error_of("") == "x.ir:1:1: unexpected text; expected \"graph\"");
  CHECK(error_of("graph") == "x.ir:1:6: no name; expected the name of the graph");
  CHECK(error_of(head + "forwards\n") ==
        "x.ir:3:1: unknown statement \"forwards\"; expected block, axis, group, parameter, optimizer, "
        "buffer, batch, "
        "forward, "
        "backward, "
        "update, segment, eager, return or a node");
  CHECK(error_of(head + "batch %1: f32[2] x\n") ==
        "x.ir:3:7: input \"x\" is defined a second time; expected unique input names");
  CHECK(error_of(head + "%1: f32[2] = a(%7)\n") ==
        "x.ir:3:16: %7 is not defined before; expected a value defined before its use");
  CHECK(error_of(head + "%1: f32[2] = a(%1)\n") ==
        "x.ir:3:16: %1 is not defined before; expected a value defined before its use");
  CHECK(error_of(head + "%0: f32[2] = a()\n") ==
        "x.ir:3:1: %0 is defined a second time; expected one definition of each value");
  CHECK(error_of(head + "%9999999999: f32[2] = a()\n") ==
        "x.ir:3:1: bad value number; expected %N with N below 65536");
  CHECK(error_of(head + "%1: f31[2] = a()\n") ==
        "x.ir:3:5: unknown dtype \"f31\"; expected f64, f32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i16, i8, "
        "u8 or b8");
  CHECK(error_of(head + "%1: f32[2]{1,2} = a()\n") ==
        "x.ir:3:5: the type has 1 sizes and 2 strides; expected a stride for each size");
  CHECK(error_of(head + "%1: f32[4294967296,4294967296] = a()\n") ==
        "x.ir:3:5: the tensor is too large; expected sizes and strides within 2^60 bytes");
  CHECK(error_of(head + "%1: f32[-1] = a()\n") == "x.ir:3:9: a negative size or stride; expected 0 or more");
  CHECK(error_of(head + "a([1, 2.0])\n") ==
        "x.ir:3:7: elements of different kinds; expected a list of one kind");
  CHECK(error_of(head + "a([[1]])\n") == "x.ir:3:4: a nested argument; expected one level of lists");
  CHECK(error_of(head + "a(wat)\n") ==
        "x.ir:3:3: unknown argument \"wat\"; expected a value, number, text, list, dtype, .symbol, "
        "wrapped(...) or none");
  CHECK(error_of(head + "a(99999999999999999999)\n") ==
        "x.ir:3:3: the integer is too large; expected 64 bits");
  CHECK(error_of(head + "a(1e999)\n") ==
        "x.ir:3:3: bad number \"1e999\"; expected a number that a double can hold");
  CHECK(error_of(head + "a(\"x\n") == "x.ir:3:3: an unterminated string; expected '\"' on the same line");
  CHECK(error_of(head + "a(\"\\q\")\n") == "x.ir:3:4: unknown escape; expected \\n, \\\", \\\\ or \\xHH");
  CHECK(error_of(head + "a(nan(0x1))\n") ==
        "x.ir:3:7: the bits of a number; expected the 64 bits of a nan such as 0xfff8000000000000");
  CHECK(error_of(head + "a(1) 2\n") == "x.ir:3:6: unexpected text; expected the end of the line");
  CHECK(error_of(head + "a(1") == "x.ir:3:4: the text ends here; expected ')'");
  CHECK(error_of(head + "return\n  a = %0 -> y\n") ==
        "x.ir:4:13: there is no input \"y\"; expected the name of an input of this graph");
  CHECK(error_of(head + "a()\nbatch %1: f32[] y\n") ==
        "x.ir:4:7: an input after a node; expected all inputs before the first node");
}

TEST_CASE("a node is in the block of its module, and not in a block whose name is a prefix of its module") {
  const Graph graph = parse(
      "graph g\nblock layers.1\nblock layers.12\nbatch %0: f32[2] x\nforward layers.1\n"
      "  %1: f32[2] = aten.neg.default(%0)\nforward layers.12.attention.wq\n  %2: f32[2] = "
      "aten.neg.default(%1)\nbackward layers.13\n  %3: f32[2] = aten.neg.default(%2)\nreturn\n",
      "x.ir");
  CHECK(blocks_of_nodes(graph) == std::vector<std::int32_t>{0, 1, -1, -1});
  CHECK(error_of("graph g\nbatch %0: f32[2] x\nforward\n  %1: f32[2] = aten.neg.default(%0)\nblock a\n") ==
        "x.ir:5:1: a block after a node; expected all blocks before the first node");
}

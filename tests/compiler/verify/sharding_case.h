// Graphs of a few nodes for the tests of the types of sharding: their inputs, and what the rules
// say of them.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "compiler/text/text.h"
#include "compiler/verify/infer_sharding.h"
#include "compiler/verify/verify.h"
#include "support/error.h"

namespace rondo::ir {

// Rows of the batch over dp, columns of `column` and rows of `row` over tp; 8 ranks.
inline constexpr const char* kHead =
    "graph g\n"
    "axis dp 4\naxis tp 2\n"
    "group dp dp\ngroup tp tp\ngroup dp_tp dp tp\n"
    "parameter %0: f32[8] whole on dp 0 tp 0\n"    // of 64 elements
    "parameter %1: f32[16] column on dp 0 tp 0\n"  // of [16, 8]: half of its rows are 64 elements
    "parameter %2: f32[16] row on dp 0 tp inner 1 of [8,8]\n"
    "batch %3: f32[2,8] x on dp 0\n"
    "batch %4: f32[] count on dp sum\n"
    "batch %5: i64[2] ids on dp 0\n"
    "forward m\n";

// Returns the reason of the refusal, or "" for an accepted graph.
inline std::string refusal_of(const std::string& nodes, const std::string& returned = "return\n") {
  const Graph graph = parse(kHead + nodes + returned, "x.ir");
  try {
    verify(graph, "test");
  } catch (const Error& error) {
    const std::string text = error.what(), rule = "shardings_agree after test: ";
    REQUIRE(text.find(rule) != std::string::npos);
    return text.substr(text.find(rule) + rule.size());
  }
  return "";
}
inline std::string type_of(const std::string& nodes, ValueId id, const std::string& head = kHead) {
  return sharding_comments(parse(head + nodes + "return\n", "x.ir"))[id];
}

// The gathered parts of w1 and w2: %12 [8, 8] with half of 16 rows, %22 [8, 8] with half of the
// columns.
inline const std::string kWeights =
    "  %10: f32[64] = _c10d_functional.all_gather_into_tensor.default(%1, 4, \"dp\")\n"
    "  %11: f32[64] views %10 = _c10d_functional.wait_tensor.default(%10)\n"
    "  %12: f32[8,8] views %11 = aten.view.default(%11, [8, 8])\n"
    "  %20: f32[64] = _c10d_functional.all_gather_into_tensor.default(%2, 4, \"dp\")\n"
    "  %21: f32[64] views %20 = _c10d_functional.wait_tensor.default(%20)\n"
    "  %22: f32[8,8] views %21 = aten.view.default(%21, [8, 8])\n"
    "  %13: f32[8,8]{1,8} views %12 = aten.t.default(%12)\n"
    "  %23: f32[8,8]{1,8} views %22 = aten.t.default(%22)\n"
    "  %30: f32[2,8] = aten.mm.default(%3, %13)\n"
    "  %31: f32[2,8] = aten.silu.default(%30)\n"
    "  %32: f32[2,8] = aten.mm.default(%31, %23)\n";
inline const std::string kSum =
    "  %33: f32[2,8] = _c10d_functional.all_reduce.default(%32, \"sum\", \"tp\")\n"
    "  %34: f32[2,8] views %33 = _c10d_functional.wait_tensor.default(%33)\n";

}  // namespace rondo::ir

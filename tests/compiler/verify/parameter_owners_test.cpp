// Owners of values in graphs of a few nodes: which graphs are accepted, and why others are refused.
#include "compiler/verify/parameter_owners.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "compiler/text/text.h"
#include "compiler/verify/verify.h"

using namespace rondo::ir;

namespace {

// Returns the reason of the refusal, or "" for an accepted graph.
std::string owner_refusal(const std::string& nodes, const std::string& returned = "return\n") {
  const Graph graph = parse(
      "graph g\n"
      "parameter %0: f32[4] a.weight\nparameter %1: f32[4] b.weight\n"
      "buffer %2: f32[4] grad.a.weight\nbuffer %3: f32[4] grad.b.weight\n"
      "batch %4: f32[2,4] x\n" +
          nodes + returned,
      "x.ir");
  try {
    parameters_keep_their_places(graph);
  } catch (const VerifyError& error) {
    return error.what;
  }
  return "";
}

// The gradients of both parameters: %22 and %23.
const std::string kBothGradients =
    "backward a\n"
    "  %20: f32[4] = aten.sum.dim_IntList(%4, [0], false, none)\n"
    "backward a.weight\n"
    "  %22: f32[4] views %20 = aten.view.default(%20, [4])\n"
    "backward b\n"
    "  %21: f32[4] = aten.sum.dim_IntList(%4, [0], false, none)\n"
    "backward b.weight\n"
    "  %23: f32[4] views %21 = aten.view.default(%21, [4])\n";

std::string when_added(const std::string& to_a, const std::string& to_b) {
  return owner_refusal(kBothGradients + "update\n  %30: f32[4] = aten.add.Tensor(%2, " + to_a +
                           ", 1)\n  %31: f32[4] = aten.add.Tensor(%3, " + to_b + ", 1)\n",
                       "return\n  new.a = %30 -> grad.a.weight\n  new.b = %31 -> grad.b.weight\n");
}

}  // namespace

TEST_CASE("a parameter is read in its own module") {
  CHECK(owner_refusal("forward a.weight\n  %10: f32[4] views %0 = aten.view.default(%0, [4])\n").empty());
  CHECK(owner_refusal("forward b.weight\n  %10: f32[4] views %0 = aten.view.default(%0, [4])\n") ==
        "reads a.weight in place of b.weight");
}

TEST_CASE("a module with a parameter of that name reads no other module's") {
  const auto read = [](const std::string& module, const std::string& parameter) {
    return owner_refusal("forward " + module + "\n  %10: f32[2,4] = aten.mul.Tensor(%4, " + parameter +
                         ")\n");
  };
  CHECK(read("a", "%0").empty());
  CHECK(read("a", "%1") == "reads b.weight in place of a.weight");
  CHECK(read("tied", "%1").empty());
}

TEST_CASE("a sum of gradients takes gradients of its parameter") {
  CHECK(when_added("%22", "%23").empty());
  CHECK(when_added("%23", "%22") == "takes the update of b.weight as the update of a.weight");
  CHECK(when_added("%23", "%23") == "");  // both share one, as after common_subexpressions
}

TEST_CASE("the gradient of a parameter without an update may go to another one") {
  CHECK(owner_refusal(kBothGradients + "update\n  %30: f32[4] = aten.add.Tensor(%2, %23, 1)\n",
                      "return\n  new.a = %30 -> grad.a.weight\n")
            .empty());
}

TEST_CASE("a gradient is added to its own sum, and each update changes its input") {
  const auto updated = [](const std::string& by) {
    return owner_refusal(kBothGradients +
                             "update\n  %30: f32[4] = aten.zeros_like.default(%2, none, none, none, "
                             "none, none)\n",
                         "return\n  new.a = " + by + " -> grad.a.weight\n");
  };
  CHECK(updated("%30").empty());
  CHECK(updated("%22") == "replaces grad.a.weight instead of adding to it");
  CHECK(updated("%2") == "leaves grad.a.weight unchanged");
}

TEST_CASE("the parts of a buffer keep their owners in order") {
  const auto bucket = [](const std::string& a, const std::string& b) {
    return owner_refusal(kBothGradients +
                             "update\n"
                             "  %24: f32[8] = aten.cat.default([%22, %23], 0)\n"
                             "  %25: f32[8] = _c10d_functional.all_reduce.default(%24, \"sum\", \"dp\")\n"
                             "  %26: f32[8] views %25 = _c10d_functional.wait_tensor.default(%25)\n"
                             "  %27: f32[4] views %26, %28: f32[4] views %26 = "
                             "aten.split_with_sizes.default(%26, [4, 4], 0)\n"
                             "  %30: f32[4] = aten.add.Tensor(%2, " +
                             a + ", 1)\n  %31: f32[4] = aten.add.Tensor(%3, " + b + ", 1)\n",
                         "return\n  new.a = %30 -> grad.a.weight\n  new.b = %31 -> grad.b.weight\n");
  };
  CHECK(bucket("%27", "%28").empty());
  CHECK(bucket("%28", "%27") == "takes the update of b.weight as the update of a.weight");
}

TEST_CASE("a parameter as the update of another one is refused") {
  CHECK(owner_refusal("forward\n", "return\n  a = %1 -> a.weight\n") ==
        "takes the update of b.weight as the update of a.weight");
}

TEST_CASE("values computed from parameters have no owner") {
  CHECK(owner_refusal("forward\n  %10: f32[4] = aten.mul.Tensor(%0, %1)\nforward a.weight\n"
                      "  %11: f32[4] views %10 = aten.view.default(%10, [4])\n")
            .empty());
}

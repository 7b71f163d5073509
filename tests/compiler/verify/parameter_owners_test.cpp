// Whose a value is, in graphs of a few nodes: what goes, and what is refused and why.
#include "compiler/verify/parameter_owners.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "compiler/text/text.h"
#include "compiler/verify/verify.h"

using namespace rondo::ir;

namespace {

// "" where it goes, else what is refused.
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

// Gradients of both: %22 and %23.
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

TEST_CASE("a parameter belongs into its own module") {
  CHECK(owner_refusal("forward a.weight\n  %10: f32[4] views %0 = aten.view.default(%0, [4])\n").empty());
  CHECK(owner_refusal("forward b.weight\n  %10: f32[4] views %0 = aten.view.default(%0, [4])\n") ==
        "takes a.weight in the place of b.weight");
}

TEST_CASE("a module reads no other module's parameter where it has one of that name") {
  const auto read = [](const std::string& module, const std::string& parameter) {
    return owner_refusal("forward " + module + "\n  %10: f32[2,4] = aten.mul.Tensor(%4, " + parameter +
                         ")\n");
  };
  CHECK(read("a", "%0").empty());
  CHECK(read("a", "%1") == "takes b.weight in the place of a.weight");
  CHECK(read("tied", "%1").empty());
}

TEST_CASE("a sum of gradients takes those of its parameter") {
  CHECK(when_added("%22", "%23").empty());
  CHECK(when_added("%23", "%22") == "takes the update of b.weight for that of a.weight");
  CHECK(when_added("%23", "%23") == "");  // they share one, as common subexpressions may
}

TEST_CASE("the gradient of a parameter that nothing updates may be another's too") {
  CHECK(owner_refusal(kBothGradients + "update\n  %30: f32[4] = aten.add.Tensor(%2, %23, 1)\n",
                      "return\n  new.a = %30 -> grad.a.weight\n")
            .empty());
}

TEST_CASE("a gradient is added to the sum that is kept for it, and each update is one") {
  const auto updated = [](const std::string& by) {
    return owner_refusal(kBothGradients +
                             "update\n  %30: f32[4] = aten.zeros_like.default(%2, none, none, none, "
                             "none, none)\n",
                         "return\n  new.a = " + by + " -> grad.a.weight\n");
  };
  CHECK(updated("%30").empty());
  CHECK(updated("%22") == "replaces grad.a.weight, and does not add to it");
  CHECK(updated("%2") == "leaves grad.a.weight as it was");
}

TEST_CASE("the parts of a buffer keep their owners, in their order") {
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
  CHECK(bucket("%28", "%27") == "takes the update of b.weight for that of a.weight");
}

TEST_CASE("a parameter that becomes another one is refused") {
  CHECK(owner_refusal("forward\n", "return\n  a = %1 -> a.weight\n") ==
        "takes the update of b.weight for that of a.weight");
}

TEST_CASE("what is computed from parameters is nobody's") {
  CHECK(owner_refusal("forward\n  %10: f32[4] = aten.mul.Tensor(%0, %1)\nforward a.weight\n"
                      "  %11: f32[4] views %10 = aten.view.default(%10, [4])\n")
            .empty());
}

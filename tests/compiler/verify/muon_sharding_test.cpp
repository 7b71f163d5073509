// The types of sharding and the owners of what Muon updates: which graphs are accepted, and why
// others are refused.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "compiler/text/text.h"
#include "compiler/verify/infer_sharding.h"
#include "compiler/verify/verify.h"
#include "support/error.h"

using namespace rondo::ir;
using Catch::Matchers::ContainsSubstring;

namespace {

// Two parameters of one size, cut over dp.
constexpr const char* kMuonHead =
    "graph g\naxis dp 4\ngroup dp dp\n"
    "parameter %0: f32[8] a.weight on dp 0\nparameter %1: f32[8] b.weight on dp 0\n"
    "optimizer %2: f32[8] momentum.a.weight on dp 0\noptimizer %3: f32[8] momentum.b.weight on dp 0\n"
    "batch %4: f32[8] shard on dp 0\nbatch %5: f32[8] whole\nbatch %6: f32[8] partial on dp sum\n"
    "batch %7: f32[] one\nbatch %8: f32[] uneven on dp sum\n"
    "buffer %9: f32[8] grad.a.weight on dp 0\nbuffer %10: f32[8] grad.b.weight on dp 0\n"
    "update\n";

struct MuonStep {
  std::string momentums = "%2, %3", gradients = "%4, %4", parameters = "%0, %1", updates = "%22, %23",
              number = "%7";

  std::string text() const {
    const std::string numbers = number + ", %7, %7, []";
    return "  %20: f32[8], %21: f32[8], %22: bf16[8], %23: bf16[8] = rondo.muon_momentum.default([" +
           momentums + "], [" + gradients + "], " + numbers +
           ", 0.95, true, bf16)\n"
           "  %24: f32[8], %25: f32[8] = rondo.muon_apply.default([" +
           parameters + "], [" + updates + "], " + numbers + ", 0.1, [0.2, 0.3])\n";
  }
};

// Returns the reason of the refusal, or "" for an accepted graph.
std::string muon_refusal(const std::string& nodes, const std::string& momentum_of_a = "%20") {
  const Graph graph =
      parse(kMuonHead + nodes + "return\n  new.a = %24 -> a.weight\n  new.b = %25 -> b.weight\n  new.ma = " +
                momentum_of_a + " -> momentum.a.weight\n  new.mb = %21 -> momentum.b.weight\n",
            "x.ir");
  try {
    verify(graph, "test");
  } catch (const rondo::Error& error) {
    return error.what();
  }
  return "";
}
bool is_refused(const std::string& nodes, const std::string& why) {
  return muon_refusal(nodes).find(why) != std::string::npos;
}

}  // namespace

TEST_CASE("Muon's updates are sharded as their gradients, and its results as the state") {
  CHECK(muon_refusal(MuonStep().text()) == "");
  const auto comments = sharding_comments(parse(kMuonHead + MuonStep().text() + "return\n", "x.ir"));
  for (const ValueId id : {20, 21, 22, 23, 24, 25}) CHECK(comments[id] == "dp 0");
}

TEST_CASE("Muon's lists must be sharded alike, and its numbers be replicated") {
  CHECK(is_refused(MuonStep{.gradients = "%4, %6"}.text(),
                   "momentum.b.weight is sharded as dp 0, but another tensor of its update as dp sum"));
  CHECK(is_refused(MuonStep{.gradients = "%5, %4"}.text(),
                   "momentum.a.weight is sharded as dp 0, but another tensor of its update as "));
  CHECK(is_refused(MuonStep{.updates = "%22, %5"}.text(),
                   "b.weight is sharded as dp 0, but another tensor of its update as "));
  CHECK(is_refused(MuonStep{.number = "%8"}.text(), "a number of the update must be replicated"));
  CHECK(is_refused(MuonStep{.updates = ""}.text(), "one of its lists has no tensors"));
}

TEST_CASE("matrices that a rank has some of are one batch in an update, and not in a forward") {
  const std::string head = "graph g\naxis dp 2\ngroup dp dp\nbatch %0: f32[2,2,3,5] x on dp 1\n",
                    view = "  %1: f32[4,3,5] views %0 = aten.view.default(%0, [4, 3, 5])\n",
                    end = "return\n  y = %1\n";
  CHECK(sharding_comments(parse(head + "update\n" + view + end, "x.ir"))[1] == "dp 0");
  CHECK_THROWS_WITH(verify(parse(head + "forward\n" + view + end, "x.ir"), "test"),
                    ContainsSubstring("dimension 1 is sharded, but the view has no such dimension"));
}

TEST_CASE("the gradient norm must count the gradients of Muon's momentums, and no orthogonalized update") {
  const auto norm_of = [](const std::string& tensors) {
    return "  %30: f64[2] = rondo.sums_of_squares.default([" + tensors + "])\n";
  };
  const MuonStep step{.gradients = "%9, %10"};
  CHECK(muon_refusal(norm_of("%9, %10") + step.text()) == "");
  CHECK(is_refused(norm_of("%9, %9") + step.text(), "must count each gradient of the updates once"));
  CHECK(is_refused(norm_of("%9") + step.text(), "must count each gradient of the updates once"));
}

TEST_CASE("a momentum takes the gradient of its parameter") {
  CHECK(muon_refusal(MuonStep{.gradients = "%9, %10"}.text()) == "");
  CHECK_FALSE(muon_refusal(MuonStep{.gradients = "%10, %9"}.text()) == "");
  CHECK_FALSE(muon_refusal(MuonStep{.momentums = "%3, %2"}.text()) == "");
  CHECK_FALSE(muon_refusal(MuonStep{.parameters = "%1, %0"}.text()) == "");
  CHECK_FALSE(muon_refusal(MuonStep().text(), "%22") == "");
}

TEST_CASE("Muon's momentum op has a result for each momentum and for each gradient") {
  const std::string nodes =
      "  %20: f32[8], %21: f32[8] = rondo.muon_momentum.default([%2, %3], [%4, %4], %7, %7, %7, [], 0.95, "
      "true, bf16)\n  %24: f32[8], %25: f32[8] = rondo.muon_apply.default([%0, %1], [%4, %4], %7, %7, %7, "
      "[], 0.1, [0.2, 0.3])\n";
  CHECK(is_refused(nodes, "has 2 results for 4 tensors"));
}

#include "compiler/plan/cost_model.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "compiler/ir/op_facts.h"
#include "compiler/ir/text.h"

using namespace rondo::ir;
using Catch::Approx;

namespace {

// The first node of a graph over a few inputs; `type` is that of its result.
struct OneNode {
  Graph graph;
  explicit OneNode(const std::string& line)
      : graph(parse("graph g\nbatch %0: bf16[1024,4096] x\nbatch %1: bf16[4096,2048] w\n"
                    "batch %2: f32[1,4096] row\nbatch %3: i64[16] ids\nbatch %4: bf16[2,32,512,128] q\n"
                    "batch %5: f32[2,32,512] l\nbatch %6: f32[1024,4096] wide\nforward\n  " +
                        line + "\nreturn\n",
                    "x.ir")) {}
  const Node& node() const { return graph.nodes.front(); }
  double bytes() const { return bytes_moved(graph, node()); }
  NodeCost cost(const DeviceModel& device) const { return node_cost(graph, node(), device); }
};

DeviceModel round_numbers() {
  DeviceModel d;
  d.peak_16bit_flops_per_s = 1e12;
  d.peak_fp32_flops_per_s = 1e11;
  d.peak_memory_bytes_per_s = 2e9;
  d.matmul_fraction = 0.5;
  d.attention_forward_fraction = 0.25;
  d.attention_backward_fraction = 0.2;
  d.memory_fraction = 0.5;
  d.launch_s = 1e-6;
  d.ranks_per_node = 4;
  d.within_node = {1e9, 1e-3};
  d.between_nodes = {1e8, 2e-3};
  return d;
}

}  // namespace

TEST_CASE("a node moves its operands and its results once") {
  CHECK(OneNode("%9: f32[1024,4096] = aten._to_copy.default(%0, f32)").bytes() == 1024 * 4096 * (2 + 4));
  CHECK(OneNode("%9: bf16[1024,2048] = aten.mm.default(%0, %1)").bytes() ==
        2.0 * (1024 * 4096 + 4096 * 2048 + 1024 * 2048));
  CHECK(OneNode("%9: bf16[1024,4096] writes %0 = aten.mul_.Tensor(%0, %0)").bytes() == 3 * 2 * 1024 * 4096);
}

TEST_CASE("what a broadcast or a look-up does not read is not counted") {
  const Graph graph = parse(
      "graph g\nbatch %2: f32[1,4096] row\nforward\n"
      "  %9: f32[1024,4096]{0,1} views %2 = aten.expand.default(%2, [1024, 4096], false)\n"
      "  %10: f32[1024,4096] = aten.mul.Scalar(%9, 2)\nreturn\n",
      "x.ir");
  CHECK(bytes_moved(graph, graph.nodes[1]) == 4.0 * 4096 + 4.0 * 1024 * 4096);
  CHECK(OneNode("%9: bf16[16,2048] = aten.embedding.default(%1, %3, -1, false, false)").bytes() ==
        16 * 8 + 2.0 * 16 * 2048);
}

TEST_CASE("views, waits, allocations and starts of collectives take no time") {
  for (const DeviceModel& device : device_models())
    for (const char* line :
         {"%9: bf16[4096,1024]{1,4096} views %0 = aten.t.default(%0)",
          "%9: bf16[1024,4096] = aten.empty_like.default(%0)",
          "%9: bf16[2048,4096] = _c10d_functional.all_gather_into_tensor.default(%0, 2, \"dp\")"}) {
      CHECK(OneNode(line).cost(device).seconds == 0);
      CHECK(OneNode(line).cost(device).kind == CostKind::nothing);
    }
}

TEST_CASE("a node takes the longest of arithmetic, memory and launch") {
  DeviceModel d = round_numbers();
  d.matmul_fraction = 1;
  const NodeCost product = OneNode("%9: bf16[1024,2048] = aten.mm.default(%0, %1)").cost(d);
  CHECK(product.kind == CostKind::memory);  // 29 MB at 1 GB/s, against 17 GFLOP at 1 TFLOP/s
  CHECK(product.seconds == Approx(2e-9 * (1024 * 4096 + 4096 * 2048 + 1024 * 2048)));
  DeviceModel fast_memory = d;
  fast_memory.peak_memory_bytes_per_s = 1e15;
  const NodeCost bound = OneNode("%9: bf16[1024,2048] = aten.mm.default(%0, %1)").cost(fast_memory);
  CHECK(bound.kind == CostKind::matmul);
  CHECK(bound.seconds == Approx(2.0 * 1024 * 4096 * 2048 / 1e12));
  const NodeCost tiny = OneNode("%9: i64[16] = aten.neg.default(%3)").cost(fast_memory);
  CHECK(tiny.kind == CostKind::launch);
  CHECK(tiny.seconds == 1e-6);
}

TEST_CASE("fp32 products run at the fp32 peak") {
  DeviceModel d = round_numbers();
  d.peak_memory_bytes_per_s = 1e15;
  const NodeCost cost = OneNode("%9: f32[4096,4096] = aten.mm.default(%6, %6)").cost(d);
  CHECK(cost.seconds == Approx(2.0 * 1024 * 4096 * 4096 / (0.5 * 1e11)));
  const NodeCost loss = OneNode(
                            "%9: f32[1024], %10: bf16[128,4096] = "
                            "rondo.linear_cross_entropy_losses.default(%0, %0, %3, -100, 128)")
                            .cost(d);
  CHECK(loss.seconds == Approx(2.0 * 1024 * 4096 * 1024 / (0.5 * 1e12)));  // though its losses are fp32
}

TEST_CASE("attention computes the causal half, forward and backward at their own rates") {
  DeviceModel d = round_numbers();
  d.peak_memory_bytes_per_s = 1e15;
  const double square = 4.0 * 2 * 32 * 512 * 128 * 512;
  const NodeCost forward =
      OneNode("%9: bf16[2,32,512,128], %10: f32[2,32,512] = rondo.attention.default(%4, %4, %4, none, 0.1)")
          .cost(d);
  CHECK(forward.kind == CostKind::attention);
  CHECK(forward.seconds == Approx(square / 2 / (1e12 * 0.25)));
  const NodeCost backward = OneNode(
                                "%9: bf16[2,32,512,128], %10: bf16[2,32,512,128], %11: bf16[2,32,512,128] = "
                                "rondo.attention_backward.default(%4, %4, %4, %4, %4, %5, none, 0.1)")
                                .cost(d);
  CHECK(backward.seconds == Approx(2.5 * square / 2 / (1e12 * 0.2)));
}

TEST_CASE("an H200 multiplies at 791 TFLOP/s and copies at 4.3 TB/s") {
  const DeviceModel& h200 = *find_device_model("h200");
  const NodeCost product = OneNode("%9: bf16[1024,2048] = aten.mm.default(%0, %1)").cost(h200);
  CHECK(product.kind == CostKind::matmul);
  CHECK(product.seconds == Approx(2.0 * 1024 * 4096 * 2048 / 791.2e12));
  const NodeCost copy = OneNode("%9: f32[1024,4096] = aten._to_copy.default(%0, f32)").cost(h200);
  CHECK(copy.seconds == Approx(1024 * 4096 * 6 / 4.32e12));
}

TEST_CASE("devices are found by name, and an unknown one is none") {
  for (const char* name : {"h200", "h100", "h100-96gb", "cpu"}) {
    REQUIRE(find_device_model(name) != nullptr);
    CHECK(find_device_model(name)->name == name);
  }
  CHECK(find_device_model("h300") == nullptr);
}

TEST_CASE("a ring moves (n - 1) / n of the bytes through each rank, an all-reduce twice") {
  const DeviceModel d = round_numbers();
  CHECK(sent_bytes(CollectiveKind::all_gather, 4000, 4) == 3000);
  CHECK(sent_bytes(CollectiveKind::reduce_scatter, 4000, 4) == 3000);
  CHECK(sent_bytes(CollectiveKind::all_reduce, 4000, 4) == 6000);
  CHECK(sent_bytes(CollectiveKind::all_to_all, 4000, 4) == 3000);
  CHECK(sent_bytes(CollectiveKind::broadcast, 4000, 4) == 4000);
  CHECK(sent_bytes(CollectiveKind::all_reduce, 4000, 1) == 0);
  CHECK(collective_seconds(CollectiveKind::all_gather, 4e6, 4, d) == Approx(3e-3 + 3e-3));
  CHECK(collective_seconds(CollectiveKind::all_reduce, 4e6, 4, d) == Approx(6e-3 + 6e-3));
  CHECK(collective_seconds(CollectiveKind::all_reduce, 4e6, 1, d) == 0);
}

TEST_CASE("a group larger than a node runs at the rate between nodes") {
  const DeviceModel d = round_numbers();
  CHECK(collective_seconds(CollectiveKind::all_gather, 8e6, 8, d) == Approx(7e-2 + 14e-3));
}

TEST_CASE("ranks of one group on several nodes share their node's links with the groups between them") {
  const DeviceModel d = round_numbers();  // 4 ranks a node
  const auto seconds = [&](std::int64_t ranks, std::int64_t stride) {
    return collective_seconds(CollectiveKind::all_gather, 8e6, ranks, d, stride);
  };
  CHECK(seconds(2, 2) == seconds(2, 1));  // one node has both
  CHECK(seconds(2, 4) == Approx(4 * 4e-2 + 2e-3));
  CHECK(seconds(2, 16) == seconds(2, 4));
}

TEST_CASE("the links give the published rates of all-reduces") {
  const DeviceModel& h100 = *find_device_model("h100");
  constexpr double kMiB = 1 << 20;
  const auto share = [&](double bytes, std::int64_t ranks, double peak) {
    return sent_bytes(CollectiveKind::all_reduce, bytes, ranks) / peak /
           collective_seconds(CollectiveKind::all_reduce, bytes, ranks, h100);
  };
  CHECK(share(16 * kMiB, 8, 450e9) == Approx(0.30).margin(0.02));
  CHECK(share(128 * kMiB, 8, 450e9) == Approx(0.67).margin(0.02));
  CHECK(share(32 * kMiB, 32, 400e9) == Approx(0.24).margin(0.05));
  CHECK(share(64 * kMiB, 32, 400e9) == Approx(0.41).margin(0.05));
  CHECK(share(512 * kMiB, 32, 400e9) == Approx(0.86).margin(0.05));
}

TEST_CASE("a collective says its kind, its whole bytes, its ranks and its group") {
  const OneNode gather(
      "%9: bf16[2048,4096] = _c10d_functional.all_gather_into_tensor.default(%0, 2, \"dp\")");
  const Collective g = *collective_of(gather.node());
  CHECK(g.kind == CollectiveKind::all_gather);
  CHECK(collective_bytes(gather.graph, gather.node()) == 2.0 * 2048 * 4096);
  CHECK(g.ranks == 2);
  CHECK(g.group == "dp");
  const OneNode scatter(
      "%9: bf16[512,4096] = _c10d_functional.reduce_scatter_tensor.default(%0, \"sum\", 2, \"dp\")");
  CHECK(collective_bytes(scatter.graph, scatter.node()) == 2.0 * 1024 * 4096);
  CHECK(collective_of(scatter.node())->ranks == 2);
  CHECK(collective_of(scatter.node())->group == "dp");
  CHECK(collective_of(scatter.node())->reduction == "sum");
  const OneNode reduce("%9: bf16[1024,4096] = _c10d_functional.all_reduce.default(%0, \"sum\", \"dp\")");
  CHECK(collective_of(reduce.node())->ranks == 0);
  const OneNode plain("%9: i64[16] = aten.neg.default(%3)");
  CHECK_FALSE(collective_of(plain.node()));
}

TEST_CASE("every collective of the op facts has a cost") {
  std::set<CollectiveKind> kinds;
  for (const OpFacts& fact : all_facts()) {
    if (!is_collective(fact)) continue;
    const OneNode one("%9: bf16[1024,4096] = " + std::string(fact.name) + "(%0, 1, \"dp\")");
    const auto made = collective_of(one.node());
    REQUIRE(made);
    CHECK(collective_bytes(one.graph, one.node()) > 0);
    kinds.insert(made->kind);
    CHECK_FALSE(collective_name(made->kind).empty());
  }
  CHECK(kinds.size() == kCollectiveKinds);
}

// The roofline, the ring, and the figures of devices, against published rates.
#include "compiler/plan/cost_model.h"

#include <fmt/format.h>

#include <array>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "compiler/ops/op.h"
#include "compiler/text/text.h"

using namespace rondo::ir;
using Catch::Approx;

namespace {

// A device without a power limit.
DeviceModel unlimited(const char* name) {
  DeviceModel device = *find_device_model(name);
  device.sustained_fraction = 1;
  return device;
}

// The first node of a graph over a few inputs; `type` is the type of its result.
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

TEST_CASE("a broadcast or a lookup counts only the bytes that it reads") {
  const Graph graph = parse(
      "graph g\nbatch %2: f32[1,4096] row\nforward\n"
      "  %9: f32[1024,4096]{0,1} views %2 = aten.expand.default(%2, [1024, 4096], false)\n"
      "  %10: f32[1024,4096] = aten.mul.Scalar(%9, 2)\nreturn\n",
      "x.ir");
  CHECK(bytes_moved(graph, graph.nodes[1]) == 4.0 * 4096 + 4.0 * 1024 * 4096);
  CHECK(OneNode("%9: bf16[16,2048] = aten.embedding.default(%1, %3, -1, false, false)").bytes() ==
        16 * 8 + 2.0 * 16 * 2048);
}

TEST_CASE(
    "an op is one launch, a view none, and an op over a list as many as its kernels have parameters for") {
  const auto count = [](const std::string& line) {
    const OneNode one(line);
    return launches(one.graph, one.node());
  };
  CHECK(count("%9: bf16[1024,2048] = aten.mm.default(%0, %1)") == 1);
  CHECK(count("%9: bf16[4096,1024]{1,4096} views %0 = aten.t.default(%0)") == 0);
  CHECK(count("%9: bf16[1024,4096] = aten.empty_like.default(%0)") == 0);
  CHECK(count("%9: bf16[2048,4096] = _c10d_functional.all_gather_into_tensor.default(%0, 2, \"dp\")") == 1);
  const auto squares = [&](int tensors) {
    std::string list = "%0";
    for (int i = 1; i < tensors; ++i) list += ", %0";
    return count(fmt::format("%9: f64[{}] = rondo.sums_of_squares.default([{}])", tensors, list));
  };
  CHECK(squares(1) == 2);
  CHECK(squares(141) == 2);
  CHECK(squares(142) == 4);
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
  CHECK(loss.seconds == Approx(2.0 * 1024 * 4096 * 1024 /
                               (0.5 * 1e12)));  // at the rate of bf16, although its losses are fp32
}

TEST_CASE("attention computes the causal half, forward and backward at their own rates") {
  DeviceModel d = round_numbers();
  d.peak_memory_bytes_per_s = 1e15;
  const double pairs = 4.0 * 2 * 32 * 128 * (512 * 513 / 2);  // their operations
  const NodeCost forward =
      OneNode("%9: bf16[2,32,512,128], %10: f32[2,32,512] = rondo.attention.default(%4, %4, %4, none, 0.1)")
          .cost(d);
  CHECK(forward.kind == CostKind::attention);
  CHECK(forward.seconds == Approx(pairs / (1e12 * 0.25)));
  const NodeCost backward = OneNode(
                                "%9: bf16[2,32,512,128], %10: bf16[2,32,512,128], %11: bf16[2,32,512,128] = "
                                "rondo.attention_backward.default(%4, %4, %4, %4, %4, %5, none, 0.1)")
                                .cost(d);
  CHECK(backward.seconds == Approx(2.5 * pairs / (1e12 * 0.2)));
}

TEST_CASE("attention costs the pairs that its window and chunks allow, at the rate of that many keys") {
  DeviceModel d = round_numbers();
  d.peak_memory_bytes_per_s = 1e15;
  const auto seconds = [&](const char* mask) {
    return OneNode(
               "%9: bf16[2,32,512,128], %10: f32[2,32,512] = rondo.attention.default(%4, %4, %4, none, "
               "0.1, " +
               std::string(mask) + ", none, none, none)")
        .cost(d)
        .seconds;
  };
  const double of_a_pair = 4.0 * 2 * 32 * 128 / (1e12 * 0.25);
  CHECK(seconds("-1, 0, 0") == Approx(of_a_pair * (512 * 513 / 2)));
  CHECK(seconds("63, 0, 0") == Approx(of_a_pair * (64 * 65 / 2 + 448 * 64)));
  CHECK(seconds("-1, 0, 128") == Approx(of_a_pair * 4 * (128 * 129 / 2)));
  CHECK(seconds("63, 0, 128") == Approx(of_a_pair * 4 * (64 * 65 / 2 + 64 * 64)));
  d.attention_forward_half = 129;
  CHECK(seconds("-1, 0, 128") == Approx(2 * of_a_pair * 4 * (128 * 129 / 2)));
}

// A quarter of the queries of a row attends to all of its keys.
TEST_CASE(
    "attention of a part of the queries costs its share, or that of the last rank if ranks have neighbours") {
  DeviceModel d = round_numbers();
  d.peak_memory_bytes_per_s = 1e15;
  const auto seconds = [&](const std::string& runs) {
    const Graph graph = parse(
        "graph g\nbatch %0: bf16[1,2,128,64] q\nbatch %1: bf16[1,2,512,64] k\nbatch %2: i32[1,128] places\n"
        "forward\n  %3: bf16[1,2,128,64], %4: f32[1,2,128] = rondo.attention.default(%0, %1, %1, none, 0.1, "
        "-1, 0, 0, none, %2, none, " +
            runs + ")\nreturn\n",
        "x.ir");
    return node_cost(graph, graph.nodes[0], d).seconds;
  };
  const double share = 4.0 * 2 * 64 * (512 * 513 / 2) / 4 / (1e12 * 0.25);
  CHECK(seconds("2") == Approx(share));
  CHECK(seconds("1") == Approx(share * (2 - 0.25)));
}

// Returns the TFLOP/s of a product in bf16.
double tera_per_s(const DeviceModel& device, const std::string& m, const std::string& k,
                  const std::string& n) {
  const Graph graph =
      parse("graph g\nbatch %0: bf16[" + m + "," + k + "] x\nbatch %1: bf16[" + k + "," + n +
                "] w\nforward\n  %2: bf16[" + m + "," + n + "] = aten.mm.default(%0, %1)\nreturn\n",
            "x.ir");
  return flops(graph, graph.nodes[0]) / node_seconds(graph, graph.nodes[0], device) * 1e-12;
}

TEST_CASE("without a power limit an H200 multiplies at the published rates of its library") {
  const DeviceModel h200 = unlimited("h200");
  CHECK(tera_per_s(h200, "8192", "8192", "8192") == Approx(790).epsilon(0.01));
  CHECK(tera_per_s(h200, "4096", "4096", "4096") == Approx(760).epsilon(0.02));
}

TEST_CASE("a copy takes a fifth more than the figure of the memory says") {
  const NodeCost copy =
      OneNode("%9: f32[1024,4096] = aten._to_copy.default(%0, f32)").cost(*find_device_model("h200"));
  CHECK(copy.seconds == Approx(1024 * 4096 * 6 / 3.84e12));
}

TEST_CASE("a power limit slows full products to what it sustains, and attention by as much, but no others") {
  const DeviceModel h200 = *find_device_model("h200"), full = unlimited("h200");
  CHECK(h200.sustained_fraction == 0.79);
  CHECK(tera_per_s(h200, "4096", "4096", "14336") == Approx(0.85 * 989 * 0.79));
  CHECK(tera_per_s(h200, "16896", "256", "8192") == tera_per_s(full, "16896", "256", "8192"));
  const OneNode attention(
      "%9: bf16[2,32,512,128], %10: f32[2,32,512] = rondo.attention.default(%4, %4, %4, none, 0.1)");
  CHECK(attention.cost(h200).seconds == Approx(attention.cost(full).seconds / 0.79));
}

TEST_CASE(
    "a product is slower if tiles or the last wave are not full, and if its sums are "
    "short") {
  const DeviceModel h200 = unlimited("h200");
  const double full = tera_per_s(h200, "16896", "8192", "8192");  // 132 * 32 tiles of 128 x 256: 32 waves
  CHECK(full == Approx(0.85 * 989 * 8192 / (8192 + 256)));
  CHECK(tera_per_s(h200, "16896", "8192", "8200") == Approx(full * 8200 / 8448).epsilon(0.001));
  CHECK(tera_per_s(h200, "17024", "8192", "8192") == Approx(full * 17024 / (16896 + 528)).epsilon(0.001));
  CHECK(tera_per_s(h200, "16896", "256", "8192") == Approx(0.85 * 989 / 2));
  DeviceModel slow = h200;  // fills and drains take as long
  slow.peak_16bit_flops_per_s /= 2;
  CHECK(tera_per_s(slow, "16896", "128", "8192") == Approx(0.85 * 989 / 2 / 2));
  // Tiles of 128 x 128 are used if larger ones leave half of the device idle. Slow ones lose less.
  CHECK(tera_per_s(h200, "1024", "4096", "2048") > 0.75 * full);
  CHECK(tera_per_s(slow, "1024", "4096", "2048") == Approx(0.85 * 989 / 2 * 0.925 * 128 / 132 * 4096 / 4224));
}

TEST_CASE("every chunk of a loss but the first reads and writes the sum of the weight gradient") {
  const DeviceModel h200 = unlimited("h200");
  const auto seconds = [&](const std::string& rows) {
    const Graph graph = parse(
        "graph g\nbatch %0: bf16[4096,4096] h\nbatch %1: bf16[128256,4096] w\n"
        "batch %2: i64[4096] labels\nbatch %3: f32[] g\nforward\n"
        "  %4: f32[4096], %5: bf16[4096,4096], %6: f32[128256,4096], %7: bf16[" +
            rows + ",128256] = rondo.linear_cross_entropy.default(%0, %1, %2, %3, -100, " + rows +
            ")\nreturn\n",
        "x.ir");
    return node_seconds(graph, graph.nodes[0], h200);
  };
  const double sum = 4.0 * 128256 * 4096 / 3.84e12, products = 3 * 2.0 * 4096 * 4096 * 128256 / 790e12;
  CHECK(seconds("4096") > products);
  CHECK(seconds("4096") < products * 1.1);
  CHECK(seconds("512") - seconds("4096") > 6 * sum);
}

TEST_CASE("the products of a group fill its waves together") {
  const auto seconds = [](const std::string& groups, const std::string& rows) {
    const Graph graph = parse("graph g\nbatch %0: bf16[" + groups + "," + rows + ",2048] x\nbatch %1: bf16[" +
                                  groups + ",2048,1024] w\nforward\n  %2: bf16[" + groups + "," + rows +
                                  ",1024] = aten.bmm.default(%0, %1)\nreturn\n",
                              "x.ir");
    return node_seconds(graph, graph.nodes[0], unlimited("h200"));
  };
  CHECK(seconds("8", "1024") == Approx(seconds("1", "8192")));
  CHECK(seconds("64", "130") > seconds("8", "1040"));
}

TEST_CASE("attention has the rates published for sequences of 2, 4, 8 and 16 thousand tokens") {
  const auto tera = [](std::int64_t length, bool backward) {
    const std::string t = std::to_string(length), q = "bf16[2,32," + t + ",128]", l = "f32[2,32," + t + "]";
    const std::string node =
        backward ? "  %4: " + q + ", %5: " + q + ", %6: " + q +
                       " = rondo.attention_backward.default(%0, %0, %0, %0, %0, %1, none, 0.1)"
                 : "  %4: " + q + ", %5: " + l + " = rondo.attention.default(%0, %0, %0, none, 0.1)";
    const Graph graph = parse(
        "graph g\nbatch %0: " + q + " q\nbatch %1: " + l + " l\nforward\n" + node + "\nreturn\n", "x.ir");
    return flops(graph, graph.nodes[0]) * 1e-12 / node_seconds(graph, graph.nodes[0], unlimited("h200"));
  };
  const std::array<std::array<double, 3>, 4> published = {
      {{2048, 484, 370}, {4096, 591, 474}, {8192, 644, 541}, {16384, 673, 579}}};
  for (const auto& [length, forward, backward] : published) {
    CHECK(tera(static_cast<std::int64_t>(length), false) == Approx(forward).epsilon(0.02));
    CHECK(tera(static_cast<std::int64_t>(length), true) == Approx(backward).epsilon(0.02));
  }
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
  CHECK(seconds(2, 2) == seconds(2, 1));  // one node has all ranks
  CHECK(seconds(2, 4) == Approx(4 * 4e-2 + 2e-3));
  CHECK(seconds(2, 16) == seconds(2, 4));
}

TEST_CASE("each rank has the rate of its own network card for what it exchanges between nodes") {
  DeviceModel d = round_numbers();  // 4 ranks a node
  d.within_node.hop_s = d.between_nodes.hop_s = 0;
  const auto seconds = [&](std::int64_t ranks, std::int64_t stride) {
    return collective_seconds(CollectiveKind::all_to_all, 8e6, ranks, d, stride);
  };
  const double near_byte_s = 1 / d.within_node.bytes_per_s, card_byte_s = 4 / d.between_nodes.bytes_per_s;
  CHECK(seconds(4, 1) == Approx(6e6 * near_byte_s));
  CHECK(seconds(8, 1) == Approx(4e6 * card_byte_s));  // half of the bytes are for the other node
  CHECK(seconds(8, 2) == Approx(6e6 * card_byte_s));  // two of a node's ranks are in the group
  d.between_nodes.bytes_per_s *= 1000;
  CHECK(seconds(8, 1) == Approx(3e6 * near_byte_s));  // the links within a node are slower then
}

TEST_CASE("small messages have cheap hops: reductions go over nodes in a tree, and gathers in a ring") {
  DeviceModel d = round_numbers();
  d.within_node.small_hop_s = 1e-6;
  d.between_nodes.small_hop_s = 7e-6;
  const auto seconds = [&](CollectiveKind kind, double bytes, std::int64_t ranks, std::int64_t stride) {
    return collective_seconds(kind, bytes, ranks, d, stride);
  };
  CHECK(seconds(CollectiveKind::all_reduce, 0, 4, 1) == Approx(2 * 3e-6));
  CHECK(seconds(CollectiveKind::all_gather, 0, 4, 1) == Approx(3e-6));
  // 16 nodes of 4 ranks.
  CHECK(seconds(CollectiveKind::all_reduce, 0, 64, 1) == Approx(2 * (3e-6 + 4 * 7e-6)));
  CHECK(seconds(CollectiveKind::all_gather, 0, 64, 1) == Approx(16 * 3e-6 + 15 * 7e-6));
  CHECK(seconds(CollectiveKind::all_reduce, 0, 16, 4) == Approx(2 * 4 * 7e-6));  // a rank a node
  // At a quarter of the rate, until the ring is faster.
  CHECK(seconds(CollectiveKind::all_gather, 4e3, 4, 1) == Approx(3e-6 + 4 * 3e3 / 1e9));
  CHECK(seconds(CollectiveKind::all_gather, 4e6, 4, 1) == Approx(3e-3 + 3e-3));
}

TEST_CASE("one number is summed over 16,384 ranks in less than a millisecond") {
  CHECK(collective_seconds(CollectiveKind::all_reduce, 8, 16384, *find_device_model("h100")) < 1e-3);
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

TEST_CASE("a collective has its kind, its whole bytes, its ranks and its group") {
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

TEST_CASE("every collective with a row has a cost") {
  std::set<CollectiveKind> kinds;
  for (const Op& fact : all_ops()) {
    if (!is_collective(fact)) continue;
    const OneNode one("%9: bf16[1024,4096] = " + std::string(fact.name) + "(%0, 1, \"dp\")");
    const auto collective = collective_of(one.node());
    REQUIRE(collective);
    CHECK(collective_bytes(one.graph, one.node()) > 0);
    kinds.insert(collective->kind);
    CHECK_FALSE(collective_name(collective->kind).empty());
  }
  CHECK(kinds.size() == kCollectiveKinds);
}

// Schedules of a few nodes on a device with round numbers: hidden, exposed and queued time.
#include "compiler/plan/simulate.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "compiler/text/text.h"
#include "compiler/verify/verify.h"

using namespace rondo::ir;
using Catch::Approx;

namespace {

// One byte takes a microsecond in memory and on the link; everything else is free.
DeviceModel slow_device() {
  DeviceModel d;
  d.peak_16bit_flops_per_s = d.peak_fp32_flops_per_s = 1e12;
  d.peak_memory_bytes_per_s = 1e6;
  d.within_node = d.between_nodes = {1e6, 0};
  d.host_bytes_per_s = 2e6;
  return d;
}

StepEstimate estimate(const std::string& nodes, std::int64_t ranks = 4) {
  const Graph graph =
      parse("graph g\nparameter %0: f32[250] w\nbatch %1: f32[500] x\nforward layers.0\n" + nodes, "x.ir");
  verify(graph, "the test");
  return simulate(graph, slow_device(), {{"dp", {ranks, 1}}});
}

// 4000 bytes from 4 ranks: 3000 are sent, 3 ms.
const std::string kGather =
    "  %2: f32[1000] = _c10d_functional.all_gather_into_tensor.default(%0, 4, \"dp\")\n";
const std::string kWait = "  %3: f32[1000] views %2 = _c10d_functional.wait_tensor.default(%2)\n";
// 2000 bytes read and 2000 written: 4 ms.
const std::string kWork = "  %4: f32[500] = aten.neg.default(%1)\n";
// 1000 bytes read and 1000 written: 2 ms.
const std::string kShortWork = "  %4: f32[250] = aten.neg.default(%0)\n";
const std::string kEnd = "return\n  y = %4\n  z = %3\n";

}  // namespace

TEST_CASE("hidden bytes cost compute memory traffic, and exposed ones none") {
  DeviceModel device = slow_device();
  device.contention = 0.5;
  const auto run = [&](const std::string& nodes) {
    const Graph graph =
        parse("graph g\nparameter %0: f32[250] w\nbatch %1: f32[500] x\nforward layers.0\n" + nodes, "x.ir");
    return simulate(graph, device, {{"dp", {4, 1}}});
  };
  const StepEstimate hidden = run(kGather + kWork + kWait + kEnd);  // 3000 bytes in 3 ms, during 4
  CHECK(hidden.slowed_s == Approx(1.5e-3));
  CHECK(hidden.step_s == Approx(5.5e-3));
  const StepEstimate half_hidden = run(kGather + kShortWork + kWait + kEnd);  // 2 of 3 ms
  CHECK(half_hidden.exposed_s == Approx(1e-3));
  CHECK(half_hidden.slowed_s == Approx(1e-3));
  CHECK(half_hidden.step_s == Approx(2e-3 + 1e-3 + 1e-3));
  device.within_node.bytes_per_s = 0.75e6;  // hidden for longer, a byte costs as much
  CHECK(run(kGather + kWork + kWait + kEnd).slowed_s == Approx(1.5e-3));
}

TEST_CASE("an exchange for whose sizes the host waits runs at its own share of the links, after the wait") {
  DeviceModel device = slow_device();
  device.exchange_fraction = 0.1;
  device.exchange_s = 1e-3;
  const auto exposed_s = [&](const DeviceModel& on, const std::string& op) {
    const Graph graph =
        parse("graph g\nparameter %0: f32[250] w\nbatch %1: i64[4] counts\nforward layers.0\n  " + op +
                  "\nreturn\n  y = %2\n",
              "x.ir");
    return simulate(graph, on, {{"ep", {4, 1}}}).exposed_s;
  };
  const std::string exchange =
      "%2: f32[250] = rondo.all_to_all_tokens.default(%0, %1, %1, %1, false, 250, \"ep\")";
  CHECK(exposed_s(device, exchange) == Approx(1e-3 + 10 * exposed_s(slow_device(), exchange)));
}

TEST_CASE(
    "a collective takes the time of its group in the mesh, at a share of the rate if the host waits for "
    "sizes") {
  const Graph graph = parse(
      "graph g\naxis dp 8\naxis ep 4\naxis tp 2\ngroup ep ep\ngroup both dp ep\n"
      "batch %0: f32[1048576,1] x\nbatch %1: i32[4] counts\nforward\n"
      "  %2: f32[1048576,1] = _c10d_functional.all_reduce.default(%0, \"sum\", \"both\")\n"
      "  %3: f32[1048576,1] = rondo.all_to_all_tokens.default(%0, %1, %1, %1, false, 1048576, \"ep\")\n"
      "  %4: f32[1048576,1] = _c10d_functional.all_reduce.default(%0, \"sum\", \"other\")\n"
      "return\n  y = %3\n",
      "x.ir");
  const auto shape = [&](std::size_t node) { return group_shape(graph, *collective_of(graph.nodes[node])); };
  const auto is = [](const GroupShape& s, std::int64_t ranks, std::int64_t stride) {
    return s.ranks == ranks && s.stride == stride;
  };
  CHECK(is(shape(0), 32, 2));
  CHECK(is(shape(1), 4, 2));
  CHECK(is(shape(2), 2, 1));  // the mesh does not have the group
  const DeviceModel& h200 = *find_device_model("h200");
  const double alone =
      collective_seconds(CollectiveKind::all_to_all, collective_bytes(graph, graph.nodes[1]), 4, h200, 2);
  CHECK(collective_seconds(graph, graph.nodes[1], shape(1), h200) ==
        Approx(alone / h200.exchange_fraction + h200.exchange_s));
}

TEST_CASE("a collective is hidden by enough work") {
  const StepEstimate e = estimate(kGather + kWork + kWait + kEnd);
  CHECK(e.compute_s == Approx(4e-3));
  CHECK(e.communication_s() == Approx(3e-3));
  CHECK(e.exposed_s == 0);
  CHECK(e.step_s == Approx(4e-3));
}

TEST_CASE("time that no work covers is exposed") {
  const StepEstimate e = estimate(kGather + kShortWork + kWait + kEnd);
  CHECK(e.exposed_s == Approx(1e-3));
  CHECK(e.step_s == Approx(3e-3));
  CHECK(e.of(CollectiveKind::all_gather).exposed_s == Approx(1e-3));
}

TEST_CASE("a wait right after its start exposes all") {
  const StepEstimate e = estimate(kGather + kWait + kWork + kEnd);
  CHECK(e.exposed_s == Approx(3e-3));
  CHECK(e.step_s == Approx(7e-3));
}

TEST_CASE("an exchange of rows ends with its node, and is never hidden") {
  const StepEstimate e =
      estimate("  %2: f32[250] = rondo.all_to_all_tokens.default(%1, %0, %0, %0, false, 250, \"dp\")\n" +
               kWork + "return\n  y = %4\n  z = %2\n");
  CHECK(e.of(CollectiveKind::all_to_all).count == 1);
  CHECK(e.of(CollectiveKind::all_to_all).exposed_s == Approx(0.75e-3));  // of 1000 bytes, to 3 others of 4
  CHECK(e.exposed_s == Approx(0.75e-3));
}

TEST_CASE("collectives take turns on the link") {
  const StepEstimate e = estimate(
      kGather + "  %5: f32[1000] = _c10d_functional.all_gather_into_tensor.default(%0, 4, \"other\")\n" +
      kWork + kWait + "  %6: f32[1000] views %5 = _c10d_functional.wait_tensor.default(%5)\n" + kEnd +
      "  a = %6\n");
  CHECK(e.communication_s() == Approx(6e-3));
  CHECK(e.exposed_s == Approx(2e-3));  // the second ends at 6 ms, the work at 4
  CHECK(e.step_s == Approx(6e-3));
}

TEST_CASE("a wait for a collective that queues after another counts for both, each for its own time") {
  const StepEstimate e = estimate(
      kGather + "  %5: f32[1000] = _c10d_functional.all_gather_into_tensor.default(%0, 4, \"other\")\n" +
      "  %6: f32[1000] views %5 = _c10d_functional.wait_tensor.default(%5)\n" + kWork + kWait + kEnd);
  CHECK(e.exposed_s == Approx(6e-3));
  for (const auto& [key, totals] : e.collectives) CHECK(totals.exposed_s == Approx(3e-3));
}

TEST_CASE("a collective does not begin before the node that starts it") {
  const StepEstimate e = estimate(kWork + kGather + kWait + kEnd);
  CHECK(e.step_s == Approx(7e-3));
}

TEST_CASE("copies to the host and from it overlap with compute and with each other") {
  const std::string offload = "  %5: host f32[250] = rondo.offload.default(%0)\n";
  const std::string wait = "  %6: host f32[250] views %5 = rondo.wait_transfer.default(%5)\n";
  const std::string reload =
      "  %7: f32[250] = rondo.reload.default(%6)\n  %8: f32[250] views %7 = "
      "rondo.wait_transfer.default(%7)\n";
  const std::string end = "return\n  y = %4\n  z = %8\n";
  const StepEstimate e = estimate(offload + kWork + wait + reload + end);
  CHECK(e.transfers.count == 2);
  CHECK(e.transfers.bytes == 2000);
  CHECK(e.transfers.seconds == Approx(1e-3));    // 0.5 ms each
  CHECK(e.transfers.exposed_s == Approx(5e-4));  // of the reload
  CHECK(e.exposed_s == 0);
  CHECK(e.compute_s == Approx(4e-3));
  CHECK(e.step_s == Approx(4.5e-3));
}

TEST_CASE("collectives are counted by kind, with whole and sent bytes") {
  const StepEstimate e =
      estimate(kGather + kWait + kWork +
               "  %5: f32[125] = _c10d_functional.reduce_scatter_tensor.default(%1, \"sum\", 4, \"dp\")\n"
               "  %6: f32[125] views %5 = _c10d_functional.wait_tensor.default(%5)\n"
               "  %7: f32[500] = _c10d_functional.all_reduce.default(%1, \"sum\", \"dp\")\n"
               "  %8: f32[500] views %7 = _c10d_functional.wait_tensor.default(%7)\n" +
               kEnd + "  a = %6\n  b = %8\n");
  CHECK(e.of(CollectiveKind::all_gather).count == 1);
  CHECK(e.of(CollectiveKind::all_gather).bytes == 4000);
  CHECK(e.of(CollectiveKind::all_gather).sent_bytes == 3000);
  CHECK(e.of(CollectiveKind::reduce_scatter).bytes == 2000);
  CHECK(e.of(CollectiveKind::reduce_scatter).sent_bytes == 1500);
  CHECK(e.of(CollectiveKind::all_reduce).count == 1);
  CHECK(e.of(CollectiveKind::all_reduce).sent_bytes == 3000);  // 2 * 3/4 of 2000, by the given ranks
  CHECK(e.of(CollectiveKind::all_to_all).count == 0);
  CHECK(e.communication_s() == Approx(7.5e-3));
}

TEST_CASE("each group has its own number of ranks, and one with a stride shares links between nodes") {
  const Graph graph = parse(
      "graph g\nbatch %0: f32[500] x\nforward layers.0\n"
      "  %1: f32[500] = _c10d_functional.all_reduce.default(%0, \"sum\", \"dp\")\n"
      "  %2: f32[500] views %1 = _c10d_functional.wait_tensor.default(%1)\n"
      "  %3: f32[500] = _c10d_functional.all_reduce.default(%2, \"sum\", \"dp_replicate\")\n"
      "  %4: f32[500] views %3 = _c10d_functional.wait_tensor.default(%3)\nreturn\n  y = %4\n",
      "x.ir");
  const StepEstimate e = simulate(graph, slow_device(), {{"dp", {4, 1}}, {"dp_replicate", {2, 8}}});
  CHECK(e.of(CollectiveKind::all_reduce).sent_bytes == 3000 + 2000);
  CHECK(e.communication_s() == Approx(3e-3 + 8 * 2e-3));  // 8 ranks a node
}

TEST_CASE("a collective within a node does not queue after one between nodes") {
  const Graph graph = parse(
      "graph g\nbatch %0: f32[500] x\nforward layers.0\n"
      "  %1: f32[500] = _c10d_functional.all_reduce.default(%0, \"sum\", \"dp\")\n"
      "  %2: f32[500] = _c10d_functional.all_reduce.default(%0, \"sum\", \"tp\")\n"
      "  %3: f32[500] views %2 = _c10d_functional.wait_tensor.default(%2)\n"
      "  %4: f32[500] views %1 = _c10d_functional.wait_tensor.default(%1)\nreturn\n  y = %3\n  z = %4\n",
      "x.ir");
  const StepEstimate apart = simulate(graph, slow_device(), {{"dp", {2, 8}}, {"tp", {4, 1}}});
  CHECK(apart.network_s == Approx(16e-3));
  CHECK(apart.node_links_s == Approx(3e-3));
  CHECK(apart.step_s == Approx(16e-3));
  const StepEstimate shared = simulate(graph, slow_device(), {{"dp", {4, 1}}, {"tp", {4, 1}}});
  CHECK(shared.step_s == Approx(6e-3));
}

TEST_CASE("a measured product takes its measured time, with any algorithm") {
  const Graph graph = parse(
      "graph g\nbatch %0: bf16[8,16] x\nbatch %1: bf16[16,8] y\nbatch %2: bf16[8,8] z\nforward layers.0\n"
      "  %3: bf16[8,8] = aten.mm.default(%0, %1)\n"
      "  %4: bf16[8,8] = rondo.mm.default(%0, %1, \"1:0:1.0.0.0.0.0.0.0\")\n"
      "  %5: bf16[8,8] = aten.addmm.default(%2, %0, %1, 1, 1)\n"
      "  %6: bf16[16,16] = aten.mm.default(%1, %0)\nreturn\n  a = %3\n  b = %4\n  c = %5\n  d = %6\n",
      "x.ir");
  const double usual = simulate(graph, slow_device(), {}).compute_s;
  const double one = 2e-6 * (8 * 16 + 16 * 8 + 8 * 8), sum = one + 2e-6 * 8 * 8;  // bytes, each 1 us
  const StepEstimate e =
      simulate(graph, slow_device(), {}, 1,
               {{"mm(bf16[8,16],bf16[16,8])", 2.0}, {"addmm(bf16[8,16],bf16[16,8])", 3.0}});
  CHECK(e.compute_s == Approx(usual - 2 * one - sum + 2 * 2.0 + 3.0));
}

TEST_CASE("of empty rows of experts SwiGLU writes zeros, and nothing is read") {
  const Graph graph = parse(
      "graph g\nbatch %0: f32[100,10] gate\nbatch %1: f32[100,10] up\nbatch %2: i32[] count\nforward m\n"
      "  %3: f32[100,10] = rondo.swiglu_rows.default(%0, %1, %2)\nreturn\n  y = %3\n",
      "x.ir");
  // 8004 bytes are read and 4000 written; with half of the rows 4002 are read.
  CHECK(simulate(graph, slow_device(), {}).compute_s == Approx(12.004e-3));
  CHECK(simulate(graph, slow_device(), {}, /*expert_rows=*/0.5).compute_s == Approx(8.002e-3));
}

TEST_CASE("compute is counted by the resource that bounds it") {
  const StepEstimate e = estimate(
      "  %2: f32[250,1] views %0 = aten.view.default(%0, [250, 1])\n"
      "  %3: f32[1,500] views %1 = aten.view.default(%1, [1, 500])\n"
      "  %4: f32[250,500] = aten.mm.default(%2, %3)\n" +
      kEnd);
  CHECK(e.flops == 2.0 * 250 * 500);
  CHECK(e.moved_bytes == 4.0 * (250 + 500 + 250 * 500));
  CHECK(e.of(CostKind::memory).nodes == 1);
  CHECK(e.of(CostKind::memory).seconds == Approx(e.compute_s));
  CHECK(e.of(CostKind::matmul).nodes == 0);
}

TEST_CASE("several runs of a graph add up") {
  const StepEstimate once = estimate(kGather + kShortWork + kWait + kEnd);
  StepEstimate total = estimate(kWork + kGather + kWait + kEnd);
  const double first = total.step_s;
  total.add(once, 3);
  CHECK(total.step_s == Approx(first + 3 * once.step_s));
  CHECK(total.exposed_s == Approx(6e-3));
  CHECK(total.of(CollectiveKind::all_gather).count == 4);
  CHECK(total.of(CollectiveKind::all_gather).sent_bytes == 12000);
  CHECK(total.of(CostKind::memory).nodes == 4);
}

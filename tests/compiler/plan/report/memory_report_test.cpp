// Categories and lifetimes of storages in the memory report, and the page that draws them.
#include "compiler/plan/report/memory_report.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "compiler/ir/def_use.h"
#include "compiler/plan/memory_plan.h"
#include "compiler/plan/report/memory_timeline.h"
#include "tests/compiler/ir/verified_graph.h"
#include "tests/compiler/passes/random_graph.h"
#include "tests/occurrences.h"

using namespace rondo;
using namespace rondo::ir;
using nlohmann::json;
using Category = StorageCategory;

namespace {

MemoryReport report_of(const Graph& graph) { return report_memory(graph, plan_memory(graph)); }

std::map<ValueId, Category> categories(const MemoryReport& report) {
  std::map<ValueId, Category> categories;
  for (const PlannedStorage& storage : report.storages) categories[storage.value] = storage.category;
  return categories;
}

std::int64_t sum(const std::array<std::int64_t, kStorageCategories>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

// A block with one sharded parameter, and a loss.
const char* const kStep = R"(graph step
block layers.0

parameter %0: f32[64] layers.0.w bucket layers.0
optimizer %1: f32[64] exp_avg
buffer %2: f32[10] rope
batch %3: f32[128] x

forward layers.0.w
  %4: f32[128] = _c10d_functional.all_gather_into_tensor.default(%0, 2, "dp")
  %5: f32[128] views %4 = _c10d_functional.wait_tensor.default(%4)
forward layers.0.norm
  %6: f32[128] = aten.mul.Tensor(%5, %3)
  %7: f32[8,16] views %6 = aten.view.default(%6, [8, 16])
forward layers.0
  %8: f32[128] = aten.neg.default(%6)
forward loss
  %9: f32[128] = aten.exp.default(%8)
backward loss
  %10: f32[128] = aten.mul.Tensor(%9, %9)
backward layers.0
  %11: f32[8,16] views %10 = aten.view.default(%10, [8, 16])
  %12: f32[8,16] = aten.mul.Tensor(%11, %7)
  %13: f32[128] views %12 = aten.view.default(%12, [128])
backward layers.0.w
  %14: f32[64] = _c10d_functional.reduce_scatter_tensor.default(%13, "sum", 2, "dp")
  %15: f32[64] views %14 = _c10d_functional.wait_tensor.default(%14)
update optimizer
  %16: f32[64] writes %0 = aten.add_.Tensor(%0, %15, 1)
return
  w = %16 -> layers.0.w
)";

}  // namespace

TEST_CASE("each storage of a step has the category of its maker and readers") {
  const MemoryReport report = report_of(verified_graph(kStep));
  CHECK(categories(report) ==
        std::map<ValueId, Category>{{4, Category::weights},
                                    {6, Category::saved_activations},  // through its view
                                    {8, Category::temporaries},
                                    {9, Category::head},
                                    {10, Category::temporaries},  // read by a block
                                    {12, Category::gradients},    // reduced later
                                    {14, Category::gradients}});
  CHECK(report.bytes_of(InputKind::parameter) == 256);
  CHECK(report.bytes_of(InputKind::optimizer) == 256);
  CHECK(report.bytes_of(InputKind::buffer) == 40);
  CHECK(report.bytes_of(InputKind::batch) == 512);
  CHECK(report.saved_bytes == 512);
  REQUIRE(report.saved.size() == 1);
  CHECK(report.saved[0].module == "norm");
  CHECK(report.saved[0].storages == 1);
}

TEST_CASE("live bytes follow views, collectives in flight, and last reads") {
  const MemoryReport report = report_of(verified_graph(kStep));
  // The input of a reduction is live until its wait, the next node.
  CHECK(report.live_bytes ==
        std::vector<std::int64_t>{512, 512, 1024, 512, 1024, 1536, 1536, 1024, 1536, 512, 768, 768, 256, 0});
  CHECK(report.peak_node == 5);
  CHECK(report.peak_at == "forward loss, aten.exp.default");
  CHECK(report.live_peak_bytes == 1536);
  CHECK(report.peak_of(Category::saved_activations) == 512);
  CHECK(report.peak_of(Category::head) == 512);
  CHECK(report.peak_of(Category::temporaries) == 512);
  CHECK(report.total_bytes() == 256 + 256 + 40 + 512 + report.arena_bytes);
  REQUIRE(report.largest.size() == 3);
  CHECK(report.largest[0].storage.value == 6);
  CHECK(report.largest[0].op == "aten.mul.Tensor");
  CHECK(report.largest[0].module == "layers.0.norm");
  CHECK(report.largest[0].type == "f32[128]");
  CHECK(report.largest[0].storage.begin == 2);
  CHECK(report.largest[0].storage.end == 8);
}

TEST_CASE("buffers of a bucket's collective are buckets, and unpacked values are weights and gradients") {
  const MemoryReport report = report_of(verified_graph(R"(graph buckets
block layers.0
parameter %0: f32[64] layers.0.a
parameter %1: f32[64] layers.0.b
batch %2: f32[256] x

forward layers.0
  %3: f32[128] = aten.cat.default([%0, %1], 0) by transformer_block_bucketing
  %4: f32[256] = _c10d_functional.all_gather_into_tensor.default(%3, 2, "dp") by transformer_block_bucketing
  %5: f32[256] views %4 = _c10d_functional.wait_tensor.default(%4) by transformer_block_bucketing
  %6: f32[256] = aten.clone.default(%5, none) by transformer_block_bucketing
backward layers.0
  %7: f32[256] = aten.mul.Tensor(%6, %2)
  %8: f32[512] = aten.cat.default([%7, %7], 0) by auto_bucketing
  %9: f32[256] = _c10d_functional.reduce_scatter_tensor.default(%8, "sum", 2, "dp") by auto_bucketing
  %10: f32[256] views %9 = _c10d_functional.wait_tensor.default(%9) by auto_bucketing
  %11: f32[256] = aten.clone.default(%10, none) by auto_bucketing
return
  gradient = %11
)"));
  CHECK(categories(report) == std::map<ValueId, Category>{{3, Category::buckets},
                                                          {4, Category::buckets},
                                                          {6, Category::weights},
                                                          {7, Category::gradients},
                                                          {8, Category::buckets},
                                                          {9, Category::buckets},
                                                          {11, Category::gradients}});
}

TEST_CASE("casts before a gather are weights, casts before a reduction are gradients") {
  const MemoryReport report = report_of(verified_graph(R"(graph casts
parameter %0: f32[64] w
batch %1: bf16[128] x

backward w
  %2: bf16[64] = aten._to_copy.default(%0, bf16, none, none, none, false, none)
  %3: bf16[128] = _c10d_functional.all_gather_into_tensor.default(%2, 2, "dp")
  %4: bf16[128] views %3 = _c10d_functional.wait_tensor.default(%3)
backward
  %5: bf16[128] = aten.mul.Tensor(%4, %1)
backward w
  %6: f32[128] = aten._to_copy.default(%5, f32, none, none, none, false, none)
  %7: f32[64] = _c10d_functional.reduce_scatter_tensor.default(%6, "sum", 2, "dp")
  %8: f32[64] views %7 = _c10d_functional.wait_tensor.default(%7)
return
  gradient = %8
)"));
  CHECK(categories(report) == std::map<ValueId, Category>{{2, Category::weights},
                                                          {3, Category::weights},
                                                          {5, Category::gradients},
                                                          {6, Category::gradients},
                                                          {7, Category::gradients}});
}

TEST_CASE("the update's casts of gradients are gradients, its other values temporaries") {
  const MemoryReport report = report_of(verified_graph(R"(graph update
parameter %0: f32[64] w
buffer %1: bf16[64] grad

update w
  %2: f32[64] = aten._to_copy.default(%1, f32, none, none, none, false, none)
update optimizer
  %3: f32[64] = aten.neg.default(%2)
  %4: f32[64] writes %0 = aten.add_.Tensor(%0, %3, 1)
return
  w = %4 -> w
)"));
  CHECK(categories(report) ==
        std::map<ValueId, Category>{{2, Category::gradients}, {3, Category::temporaries}});
}

TEST_CASE("an in-place op and a result that reuses its operand's memory count their bytes once") {
  const MemoryReport in_place = report_of(verified_graph(R"(graph in_place
batch %0: f32[64] x
forward
  %1: f32[64] = aten.neg.default(%0)
  %2: f32[64] writes %1 = aten.exp_.default(%1)
return
  y = %2
)"));
  CHECK(in_place.storages.size() == 1);
  CHECK(in_place.live_bytes == std::vector<std::int64_t>{256, 256, 256});

  const MemoryReport taken_over = report_of(verified_graph(R"(graph taken_over
batch %0: f32[64] x
backward
  %1: f32[64] = aten.neg.default(%0)
  %2: f32[64] = aten.silu_backward.default(%1, %0)
return
  y = %2
)"));
  CHECK(taken_over.live_bytes == std::vector<std::int64_t>{256, 256, 256});
  REQUIRE(taken_over.storages.size() == 2);
  CHECK(taken_over.storages[0].end == 0);
  CHECK(taken_over.storages[1].begin == 1);
}

TEST_CASE("bytes by category add up to the peak of the plan on random graphs") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = random_graph(seed, 20 + static_cast<int>(seed));
    const MemoryPlan plan =
        plan_memory(graph, memory_needs(seed % 3 == 0 ? TargetDevice::cpu : TargetDevice::cuda));
    const MemoryReport report = report_memory(graph, plan);
    INFO("seed " << seed);
    REQUIRE(report.live_peak_bytes == plan.live_peak_bytes);
    REQUIRE(sum(report.peak_bytes) == plan.live_peak_bytes);
    REQUIRE(report.arena_bytes == plan.live_peak_bytes + report.fragmentation_bytes());
    REQUIRE(report.live_bytes.size() == graph.nodes.size());
    // Recomputes the bytes from the offsets: two live storages never have the same offset.
    const DefUse def_use(graph);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      std::map<std::int64_t, std::int64_t> live;
      for (ValueId v = 0; v < graph.value_count(); ++v)
        if (plan.offsets[v] >= 0 && def_use.maker(v) <= static_cast<int>(i) &&
            plan.ends[v] >= static_cast<int>(i))
          live[plan.offsets[v]] = planned_bytes(graph.values[v].type, plan.alignment);
      for (const Workspace& workspace : plan.workspaces)
        if (workspace.start <= static_cast<int>(i) && static_cast<int>(i) <= workspace.wait)
          live[workspace.offset] = planned_bytes(workspace.bytes, plan.alignment);
      std::int64_t bytes = 0;
      for (const auto& [offset, size] : live) bytes += size;
      REQUIRE(report.live_bytes[i] == bytes);
    }
  }
}

TEST_CASE("the memory of a CPU reduce-scatter is a workspace from its start to its wait") {
  const Graph graph = verified_graph(kStep);
  const MemoryPlan plan = plan_memory(graph, memory_needs(TargetDevice::cpu));
  const MemoryReport report = report_memory(graph, plan);
  REQUIRE(report.storages.size() == 8);
  const PlannedStorage& workspace = report.storages.back();
  CHECK(workspace.category == Category::workspaces);
  CHECK(workspace.bytes == 512);
  CHECK(workspace.begin == 10);
  CHECK(workspace.end == 11);
  // The gradient, the received contributions and the shard.
  CHECK(report.live_bytes[10] == 512 + 512 + 256);
  CHECK(report.live_peak_bytes == plan.live_peak_bytes);
}

TEST_CASE("a graph without storages has a report and a page") {
  const Graph graph = verified_graph("graph empty\nbatch %0: f32[8] x\nreturn\n  y = %0\n");
  const MemoryReport report = report_of(graph);
  CHECK(report.live_peak_bytes == 0);
  CHECK(report.total_bytes() == 32);
  CHECK(print_lines(report).size() == 3);
  CHECK(memory_timeline(graph, report).find("\"peak\":0,") != std::string::npos);
}

TEST_CASE("the summary has a row for each category that is not empty and names the largest tensors") {
  std::string text;
  for (const std::string& line : print_lines(report_of(verified_graph(kStep)))) text += line + "\n";
  CHECK(text ==
        "memory of step: 2.5 KiB planned; the peak is at node 5 of 14, forward loss, aten.exp.default\n"
        "  parameters              256 B    9.8 %   always\n"
        "  optimizer               256 B    9.8 %   always\n"
        "  buffers                  40 B    1.5 %   always\n"
        "  batch                   512 B   19.7 %   always\n"
        "  head                    512 B   19.7 %\n"
        "  saved activations       512 B   19.7 %   norm 512 B\n"
        "  temporaries             512 B   19.7 %\n"
        "  fragmentation             0 B    0.0 %\n"
        "  largest tensor 512 B: layers.0.norm aten.mul.Tensor, f32[128], nodes 2 to 8\n"
        "           then 512 B: layers.0 aten.neg.default, f32[128], nodes 4 to 5\n"
        "           then 512 B: loss aten.exp.default, f32[128], nodes 5 to 6\n");
}

namespace {

json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

}  // namespace

TEST_CASE("the page holds every node, storage and collective of the graph, and its peak") {
  const Graph graph = verified_graph(kStep);
  const MemoryReport report = report_of(graph);
  const std::string page = memory_timeline(graph, report);
  const json data = data_of(page);
  CHECK(data["name"] == "step");
  CHECK(data["peak"] == 1536);
  CHECK(data["peak_node"] == 5);
  CHECK(data["op"].size() == graph.nodes.size());
  CHECK(data["modules"][data["module"][5].get<int>()] == "loss");
  CHECK(data["ops"][data["op"][5].get<int>()] == "aten.exp.default");
  CHECK(data["storages"].size() == 5 * report.storages.size());
  CHECK(data["input_bytes"] == json({256, 256, 40, 512, 0}));
  CHECK(data["kinds"] == json({"all_gather_into_tensor", "reduce_scatter_tensor"}));
  CHECK(data["groups"] == json({"dp"}));
  CHECK(data["collectives"] == json({0, 1, 0, 512, 0, 10, 1, 1, 512, 0}));
  CHECK(data["phases"] == json({0, 6, 0, 6, 12, 1, 12, 14, 2}));
  CHECK(data["blocks"] == json({2, 5, 0, 7, 10, 0}));
  CHECK(data["saved"] == json({512, 1}));
  CHECK(page == memory_timeline(graph, report_of(graph)));
}

TEST_CASE("the page's sums of live bytes equal the report on random graphs") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Graph graph = random_graph(seed, 100);
    const MemoryReport report = report_of(graph);
    const json data = data_of(memory_timeline(graph, report));
    std::vector<std::int64_t> live(graph.nodes.size());
    const json& storages = data["storages"];
    for (std::size_t i = 0; i < storages.size(); i += 5)
      for (std::int64_t node = 0; node <= storages[i + 1].get<std::int64_t>(); ++node)
        live[static_cast<std::size_t>(storages[i].get<std::int64_t>() + node)] +=
            storages[i + 2].get<std::int64_t>();
    REQUIRE(live == report.live_bytes);
  }
}

TEST_CASE("names are escaped in the page's data and title") {
  Graph graph = verified_graph(kStep);
  const std::string evil = "</script><script>alert(1)</script><!-- \"\\ & \x01 \xc3\xa9";
  const std::string plain = memory_timeline(graph, report_of(graph));
  graph.name = evil;
  for (Node& node : graph.nodes)
    if (node.module == "loss") node.module = evil;
  graph.blocks[0] = "layers.0";
  const std::string page = memory_timeline(graph, report_of(graph));
  const json data = data_of(page);
  CHECK(data["name"] == evil);
  CHECK(data["modules"][data["module"][5].get<int>()] == evil);
  CHECK(occurrences(page, "<script") == occurrences(plain, "<script"));
  CHECK(occurrences(page, "</script") == occurrences(plain, "</script"));
  CHECK(occurrences(page, "<!--") == occurrences(plain, "<!--"));
  CHECK(page.find("<title>&lt;/script>") != std::string::npos);
}

TEST_CASE("the page loads nothing") {
  const Graph graph = verified_graph(kStep);
  const std::string page = memory_timeline(graph, report_of(graph));
  for (const char* const word : {"http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "import("})
    CHECK(occurrences(page, word) == 0);
}

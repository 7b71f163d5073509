// The cost of float8 quantization and of float8 products.
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "compiler/ops/op.h"
#include "compiler/plan/cost_model.h"
#include "compiler/text/text.h"

using namespace rondo::ir;
using Catch::Approx;

namespace {

// Quantizes x [8192, 8192] in blocks and multiplies it by itself.
Graph squared(const std::string& block, const std::string& scales, bool emulate = false,
              const std::string& strides = "") {
  const std::string matrix = ": f8e4m3[8192,8192]";
  return parse("graph g\nbatch %0: bf16[8192,8192]" + strides + " x\nforward\n  %1" + matrix + ", %2: f32[" +
                   scales + "] = rondo.quantize_float8.default(%0, " + block + ", f8e4m3, true)\n" +
                   "  %3: bf16[8192,8192] = rondo.float8_mm.default(%1, %2, %1, %2, bf16, true, " +
                   (emulate ? "true" : "false") + ")\nreturn\n",
               "x.ir");
}

double tera_per_s(const Graph& graph, const DeviceModel& device) {
  return flops(graph, graph.nodes[1]) / node_seconds(graph, graph.nodes[1], device) * 1e-12;
}

constexpr double kElements = 8192.0 * 8192;

}  // namespace

TEST_CASE("a float8 product has the operations of any product, at the rate of float8") {
  const Graph tensorwise = squared("0, 0", "1,1"), blocks = squared("1, 128", "8192,64");
  const Graph plain = parse(
      "graph g\nbatch %0: bf16[8192,8192] x\nforward\n  %1: bf16[8192,8192]{1,8192} views %0 = "
      "aten.t.default(%0)\n"
      "  %2: bf16[8192,8192] = aten.mm.default(%0, %1)\nreturn\n",
      "x.ir");
  CHECK(flops(tensorwise, tensorwise.nodes[1]) == 2 * 8192 * kElements);
  const DeviceModel& h200 = *find_device_model("h200");
  DeviceModel without_limit = h200;
  without_limit.sustained_fraction = 1;
  CHECK(tera_per_s(tensorwise, without_limit) == Approx(1514).epsilon(0.01));
  // On an H200, a scale a matrix and scales of 128 over bf16: two of three products reach 1,115,
  // one 894.
  CHECK(tera_per_s(tensorwise, h200) / tera_per_s(plain, h200) == Approx(1333.0 / 693).epsilon(0.01));
  CHECK(tera_per_s(blocks, h200) / tera_per_s(plain, h200) ==
        Approx(3 / (2 / 1115.0 + 1 / 894.0) / 693).epsilon(0.01));
  CHECK(tera_per_s(squared("0, 0", "1,1", true), h200) < 67);
}

TEST_CASE("a grouped product of float8 has the operations of any grouped product, at the rate of float8") {
  const auto grouped = [](const char* emulates) {
    return parse(std::string("graph g\nbatch %0: bf16[65536,2048] x\nbatch %1: bf16[16,4096,2048] w\n"
                             "batch %2: i32[16] ends\nforward\n"
                             "  %3: f8e4m3[65536,2048], %4: f32[65536,1] = "
                             "rondo.quantize_float8_runs.default(%0, %2, 0)\n"
                             "  %5: f8e4m3[16,4096,2048], %6: f32[16,4096,1] = "
                             "rondo.quantize_float8.default(%1, 1, 0, f8e4m3, true)\n"
                             "  %7: bf16[65536,4096] = rondo.float8_grouped_mm.default(%3, %4, %5, %6, %2, "
                             "bf16, true, ") +
                     emulates +
                     ")\n"
                     "  %8: bf16[16,2048,4096]{8388608,1,2048} views %1 = aten.transpose.int(%1, 1, 2)\n"
                     "  %9: bf16[65536,4096] = rondo.grouped_mm.default(%0, %8, %2)\nreturn\n",
                 "x.ir");
  };
  const Graph graph = grouped("false");
  const auto rate = [&](const Graph& of, std::size_t node) {
    return flops(of, of.nodes[node]) / node_seconds(of, of.nodes[node], *find_device_model("h200")) * 1e-12;
  };
  CHECK(flops(graph, graph.nodes[2]) == flops(graph, graph.nodes[4]));
  CHECK(flops(graph, graph.nodes[2]) == 2.0 * 65536 * 2048 * 4096);
  CHECK(rate(graph, 2) > 1.5 * rate(graph, 4));
  CHECK(rate(grouped("true"), 2) < 67);
  // Rows are read once, in one launch.
  CHECK(launches(graph, graph.nodes[0]) == 1);
  CHECK(bytes_moved(graph, graph.nodes[0]) == 3.0 * 65536 * 2048 + 4 * 65536 + 4 * 16);
}

TEST_CASE(
    "only some GPUs have float8 products, and only Hopper those with blocks of 128, Blackwell those of 32") {
  for (const DeviceModel& device : device_models()) {
    const bool hopper = device.name.starts_with("h"), ampere = device.name.starts_with("a");
    CHECK((device.peak_float8_flops_per_s > 0) == (device.is_gpu && !ampere));
    CHECK((device.float8_blocks_fraction > 0) == hopper);
    const bool blackwell = device.name.starts_with("b") || device.name == "gb200" || device.name == "gb300";
    CHECK((device.float8_mx_fraction > 0) == blackwell);
    CHECK((device.peak_nvfp4_flops_per_s >= 2 * device.peak_float8_flops_per_s) ==
          (blackwell || device.peak_float8_flops_per_s == 0));
  }
}

TEST_CASE("a matrix with a scale for all of it, or for dense columns, is read twice, in two launches") {
  struct Row {
    const char *block, *scales, *strides;
    double reads;
    std::int64_t launches, of_scales;
  };
  for (const auto& [block, scales, strides, reads, launched, of_scales] :
       {Row{"0, 0", "1,1", "", 2, 2, 1},
        {"1, 0", "8192,1", "", 1, 1, 8192},
        {"1, 0", "8192,1", "{1,8192}", 2, 2, 8192},
        {"1, 128", "8192,64", "{1,8192}", 1, 1, 8192 * 64},
        {"128, 128", "64,64", "", 1, 1, 64 * 64}}) {
    const Graph graph = squared(block, scales, false, strides);
    CHECK(bytes_moved(graph, graph.nodes[0]) ==
          (2 * reads + 1) * kElements + 4 * static_cast<double>(of_scales));
    CHECK(launches(graph, graph.nodes[0]) == launched);
  }
}

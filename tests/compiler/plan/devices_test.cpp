// The devices of plans: names, the header's table, and factors for measured machines.
#include "compiler/plan/devices/devices.h"

#include <fmt/format.h>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

using namespace rondo::ir;

TEST_CASE("a device is found by the name in its driver") {
  struct Row {
    const char *reported, *name;
    double peak;
  };
  for (const Row& row :
       {Row{"NVIDIA H100 80GB HBM3", "h100", 989e12}, Row{"NVIDIA H100 PCIe", "h100-pcie", 756e12},
        Row{"NVIDIA H200", "h200", 989e12}, Row{"NVIDIA GB200", "gb200", 2500e12},
        Row{"NVIDIA B200", "b200", 2250e12}, Row{"NVIDIA H20", "h20", 148e12}}) {
    CHECK(find_device_model(row.reported) == find_device_model(row.name));
    CHECK(find_device_model(row.name)->peak_16bit_flops_per_s == row.peak);
  }
  // The peak of a GPU with a similar name would give a wrong MFU.
  for (const char* name :
       {"NVIDIA H800", "NVIDIA H100 NVL", "AMD Instinct MI300X", "Intel(R) Xeon(R) Processor"})
    CHECK(find_device_model(name) == nullptr);
}

TEST_CASE("devices are found by name, and an unknown name gives none") {
  for (const DeviceModel& device : device_models()) CHECK(find_device_model(device.name) == &device);
  for (const char* name : {"a100-40gb", "a100-80gb", "h100-pcie", "h100", "h100-96gb", "h20", "h200", "b200",
                           "b300", "gb200", "gb300", "l40s", "rtx4090", "rtxpro6000", "gb10", "cpu"})
    CHECK(find_device_model(name) != nullptr);
  CHECK(find_device_model("h100-80gb") == find_device_model("h100"));
  CHECK(find_device_model("4090") == find_device_model("rtx4090"));
  for (const char* name : {"h300", "NVIDIA", ""}) CHECK(find_device_model(name) == nullptr);
}

TEST_CASE("the table of devices in the header agrees with the code") {
  std::ifstream header(RONDO_SOURCE_DIR "/compiler/plan/devices/devices.h");
  std::set<std::string> names;
  for (std::string line; std::getline(header, line);) {
    std::istringstream words(line.substr(std::min<std::size_t>(2, line.size())));
    std::string name, unit, float8;
    double bf16 = 0, fp32 = 0, gibibytes = 0, terabytes_per_s = 0;
    int multiprocessors = 0, linked = 0;
    if (!(words >> name >> bf16 >> float8 >> fp32 >> gibibytes >> unit >> terabytes_per_s) || unit != "GiB")
      continue;
    words >> unit >> multiprocessors >> linked;
    const DeviceModel* device = find_device_model(name);
    REQUIRE(device != nullptr);
    names.insert(name);
    CHECK(device->peak_16bit_flops_per_s == bf16 * 1e12);
    CHECK(device->peak_float8_flops_per_s == (float8 == "-" ? 0 : std::stod(float8) * 1e12));
    CHECK(device->peak_fp32_flops_per_s == fp32 * 1e12);
    CHECK(device->memory_bytes == static_cast<std::int64_t>(gibibytes * (1 << 30)));
    CHECK(device->peak_memory_bytes_per_s == terabytes_per_s * 1e12);
    CHECK(device->multiprocessors == multiprocessors);
    CHECK(device->ranks_per_node == linked);
    CHECK(line.ends_with(fmt::format(" {:g} W", device->power_w)));
  }
  CHECK(names.size() + 1 == device_models().size());  // and the CPU
}

TEST_CASE("every GPU reserves 3 GiB, exchanges reach half, and a hidden byte costs three of memory traffic") {
  for (const DeviceModel& device : device_models()) {
    if (!device.is_gpu) continue;
    CHECK(device.reserve_bytes == std::int64_t{3} << 30);
    CHECK(device.exchange_fraction == 0.5);
    CHECK(device.exchange_s == 50e-6);
    CHECK(device.contention == 3);
  }
}

TEST_CASE("a measured machine scales the named rates only") {
  const DeviceModel& h200 = *find_device_model("h200");
  DeviceModel measured = h200;
  CHECK(scale_rate(measured, "matmul", 0.5));
  CHECK(scale_rate(measured, "contention", 2));
  CHECK(scale_rate(measured, "network", 0.25));
  CHECK_FALSE(scale_rate(measured, "matrix", 0.5));
  CHECK(measured.matmul_fraction == 0.5 * h200.matmul_fraction);
  CHECK(measured.contention == 2 * h200.contention);
  CHECK(measured.between_nodes.bytes_per_s == 0.25 * h200.between_nodes.bytes_per_s);
  CHECK(measured.memory_fraction == h200.memory_fraction);
  CHECK(measured.within_node.bytes_per_s == h200.within_node.bytes_per_s);
}

TEST_CASE("the network of a node grows with its GPUs and with the rate of each") {
  const DeviceModel& h100 = *find_device_model("h100");
  DeviceModel device = h100;
  CHECK(set_gpus_per_node(device, 4).empty());
  CHECK(device.ranks_per_node == 4);
  CHECK(device.between_nodes.bytes_per_s == Catch::Approx(h100.between_nodes.bytes_per_s / 2));
  set_network(device, 800);
  CHECK(device.between_nodes.bytes_per_s == Catch::Approx(h100.between_nodes.bytes_per_s));
  CHECK(device.within_node.bytes_per_s == h100.within_node.bytes_per_s);
  device = *find_device_model("gb10");
  CHECK(set_gpus_per_node(device, 2) == "must be 1 for gb10, which has no links within a node");
}

TEST_CASE("large products of an RTX 4090 and of an L40S run at the rates that were measured") {
  const auto tera_per_s = [](const char* name) {
    const DeviceModel& device = *find_device_model(name);
    return device.peak_16bit_flops_per_s * device.matmul_fraction * device.sustained_fraction / 1e12;
  };
  CHECK(tera_per_s("rtx4090") == Catch::Approx(175.1).epsilon(0.01));
  CHECK(tera_per_s("l40s") == Catch::Approx(230).epsilon(0.01));
}

TEST_CASE("an H100 with 500 W sustains what the 500 W card of the table does") {
  DeviceModel device = *find_device_model("h100");
  CHECK(set_power(device, 500).empty());
  CHECK(device.power_w == 500);
  CHECK(device.sustained_fraction ==
        Catch::Approx(find_device_model("h100-96gb")->sustained_fraction).epsilon(0.01));
  CHECK(set_power(device, 501) == "must be from 125 to 500, the limit of h100");
  device.power_w = 0;
  CHECK_FALSE(set_power(device, 500).empty());
}

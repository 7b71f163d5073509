#include "compiler/plan/devices/devices.h"

#include <catch2/catch_test_macros.hpp>

using namespace rondo::ir;

TEST_CASE("a device is found by the name in its driver") {
  struct Row {
    const char *reported, *name;
    double peak;
  };
  for (const Row& row : {Row{"NVIDIA H100 80GB HBM3", "h100", 989e12},
                         Row{"NVIDIA H100 PCIe", "h100-pcie", 756e12}, Row{"NVIDIA H200", "h200", 989e12},
                         Row{"NVIDIA GB200", "gb200", 2500e12}, Row{"NVIDIA B200", "b200", 2250e12}}) {
    CHECK(find_device_model(row.reported) == find_device_model(row.name));
    CHECK(find_device_model(row.name)->peak_16bit_flops_per_s == row.peak);
  }
  // The peak of a GPU with a similar name would give a wrong MFU.
  for (const char* name :
       {"NVIDIA H20", "NVIDIA H100 NVL", "AMD Instinct MI300X", "Intel(R) Xeon(R) Processor"})
    CHECK(find_device_model(name) == nullptr);
}

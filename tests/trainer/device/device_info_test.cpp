#include "trainer/device/device_info.h"

#include <catch2/catch_test_macros.hpp>

TEST_CASE("a CPU build reports no accelerator") { CHECK(rondo::cuda_build_info() == "none"); }

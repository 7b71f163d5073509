// The device of a plan from a TOML file: a GPU that the table lacks, or a card of the table with
// some other figures. Keys are the fields of ir::Card (compiler/plan/devices/devices.h).
//
//   base = "h100"            # a card of the table, for all that the file leaves out
//   name = "h100 at 500 W"
//   power_w = 500
//   sustained_fraction = 0.69
#pragma once

#include <string>

#include "compiler/plan/devices/devices.h"

namespace rondo {

// `place` is where the file is named, for messages. Without `base`, every figure must be in the
// file, but not description, float8, power and the shares of rates. Throws one Error(config) with a
// line for each problem:
//   card.toml:3:1: memory_gib = 0: must be more than 3
//   card.toml: lacks fp32_tflops, memory_gib; ...
ir::DeviceModel read_device_file(const std::string& path, const std::string& place);

}  // namespace rondo

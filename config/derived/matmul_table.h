// The file of compile.matmul_algorithms: measurements of `rondo tune` on a GPU, read by runs on
// such GPUs.
//
//   {"device": "NVIDIA H200",
//    "products": [{"product": "mm(bf16[4096,4096],bf16[4096,6144]{1,4096})", "calls": 32,
//                  "libtorch_us": 312.5, "us": 290.1, "algorithm":
//                  "130100:0:42.1c0024.0.0.0.0.0.0"}, ...]}
//
// "algorithm" is "" if LibTorch's own product was as fast. "calls" are per step; times are
// microseconds per call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

struct MatmulRow {
  std::string product;  // ir::Product::key
  std::int64_t calls = 0;
  double libtorch_us = 0, us = 0;
  std::string algorithm;

  bool operator==(const MatmulRow&) const = default;
};

struct MatmulTable {
  std::string device;
  std::vector<MatmulRow> rows;

  bool operator==(const MatmulTable&) const = default;
  // Maps from product.
  std::map<std::string, std::string> algorithms() const;
  std::map<std::string, double> seconds() const;  // per call
};

std::string to_text(const MatmulTable& table);
std::string fingerprint(const MatmulTable& table);
// Throws Error(config) that names the file and the row.
MatmulTable parse_matmul_table(std::string_view text, const std::string& file);
MatmulTable read_matmul_table(const std::filesystem::path& file);
// Reads the table of compile.matmul_algorithms; nullopt if none is set.
std::optional<MatmulTable> matmul_table(const JobConfig& config);
// Throws Error(config) if the table, read from `file`, was measured on another kind of device.
void check_measured_on(const MatmulTable& table, const std::string& file, const std::string& device);

}  // namespace rondo

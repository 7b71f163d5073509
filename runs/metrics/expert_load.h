// Writes expert_load.jsonl: how many tokens each router sent to each of its experts in a step, over
// all ranks and microbatches.
//
//   {"step": 10, "tokens_per_expert": {"layers.1.moe": [17, 31, ...], "layers.2.moe": [...]}}
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "support/files/append_file.h"

namespace rondo {

// Appends lines. For what a kill or a full disk leaves, see AppendFile.
class ExpertLoadWriter {
 public:
  // `routers`: the names of at least one router, in the order of the rows below.
  ExpertLoadWriter(const std::filesystem::path& run_folder, std::vector<std::string> routers);
  // REQUIRES: `tokens_LE` has one row of integers per router, all of one length.
  void write(std::int64_t step, std::span<const float> tokens_LE);
  AppendFile& file() { return file_; }

 private:
  std::vector<std::string> routers_;
  AppendFile file_;
};

}  // namespace rondo

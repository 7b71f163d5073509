// expert_load.jsonl: how many tokens each router sent to each of its experts in a step, of all ranks and
// microbatches.
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

// Appends; see AppendFile for what a kill or a full disk leaves behind.
class ExpertLoadWriter {
 public:
  // `routers`: their names, one or more, in the order of the rows below.
  ExpertLoadWriter(const std::filesystem::path& run_folder, std::vector<std::string> routers);
  // REQUIRES: `tokens_LE` has a row of whole numbers for each router, all of one length.
  void write(std::int64_t step, std::span<const float> tokens_LE);
  AppendFile& file() { return file_; }

 private:
  std::vector<std::string> routers_;
  AppendFile file_;
};

}  // namespace rondo

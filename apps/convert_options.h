// Arguments of `rondo convert`. No LibTorch: rondo reads them before it starts the worker.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rondo {

struct ConvertOptions {
  std::filesystem::path from, to;
  bool to_hugging_face = false;  // false: from a Hugging Face folder to a checkpoint
  std::string dtype = "bfloat16";
  std::string tokenizer;  // argument of load_tokenizer; "": unknown
  std::uint64_t max_shard_bytes = 5'000'000'000;
};

// Parses the arguments. Returns nullopt after printing --help. FROM decides the direction: a
// checkpoint (step-N), a run folder or its folder of checkpoints (the newest committed one is
// used), or a folder with config.json. Throws Error(usage) and Error(checkpoint).
std::optional<ConvertOptions> read_convert_options(const std::vector<std::string>& args);

}  // namespace rondo

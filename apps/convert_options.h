// The words of `rondo convert`. No LibTorch: rondo reads them before it starts the worker.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rondo {

struct ConvertOptions {
  std::filesystem::path from, to;
  bool to_hugging_face = false;  // from a checkpoint; otherwise from a Hugging Face folder to a checkpoint
  std::string dtype = "bfloat16";
  std::string tokenizer;  // as load_tokenizer takes it; "": none is known
  std::uint64_t max_shard_bytes = 5'000'000'000;
};

// std::nullopt: --help was asked for, and is printed. What FROM is decides the direction: a checkpoint
// (step-N), a run folder or its folder of checkpoints, of which the newest committed one counts; or a folder
// with config.json. Throws Error(usage, checkpoint).
std::optional<ConvertOptions> read_convert_options(const std::vector<std::string>& args);

}  // namespace rondo

// Weights between our checkpoints and Hugging Face folders, as a stream: memory is bounded, whatever the
// model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "checkpoint/hugging_face/config.h"

namespace rondo {

struct ExportOptions {
  std::string dtype = "bfloat16";  // float32 | float16 | bfloat16; rounded to the nearest, ties to even
  // As load_tokenizer takes it: its ids go to generation_config.json, its files beside the weights. "": none.
  std::string tokenizer;
  std::uint64_t max_shard_bytes = 5'000'000'000;
};

// The weights of a committed checkpoint, full or of the model alone, written by any number of ranks. Throws
// Error(checkpoint) where it is damaged or of a model that has no Hugging Face form; `to` must not exist.
void export_to_hugging_face(const std::filesystem::path& checkpoint, const std::filesystem::path& to,
                            const ExportOptions& options);

// A checkpoint of the weights alone, ROOT/step-0, in the folder's own dtype: bit for bit what the folder
// holds. Matrices in 8 bits are in the dtype that its config.json names, or else in fp32. A file of the
// checkpoint has `file_bytes`, or one tensor more; so much is in memory. checkpoint.initial_load_path takes
// it. Returns its path.
std::filesystem::path import_from_hugging_face(const std::filesystem::path& from,
                                               const std::filesystem::path& root,
                                               std::int64_t file_bytes = std::int64_t{1} << 30);

}  // namespace rondo

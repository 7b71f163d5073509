// Converts weights between checkpoints and Hugging Face folders as a stream, in bounded memory for
// any model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "checkpoint/hugging_face/config.h"
#include "config/schema/choices.h"

namespace rondo {

struct ExportOptions {
  Precision dtype = Precision::bfloat16;  // rounds to nearest even
  // The argument of load_tokenizer; "": no tokenizer. Its ids must be rows of the model's
  // vocabulary. BOS and EOS are written to generation_config.json, and its files next to the
  // weights.
  std::string tokenizer;
  std::uint64_t max_shard_bytes = 5'000'000'000;
};

// Writes the weights of a committed checkpoint, full or of the model alone, of any number of ranks.
// Throws Error(checkpoint) if it is damaged, or its model has no Hugging Face form. REQUIRES: `to`
// does not exist.
void export_to_hugging_face(const std::filesystem::path& checkpoint, const std::filesystem::path& to,
                            const ExportOptions& options);

// Writes a checkpoint of the weights alone, ROOT/step-0, in the dtype of the folder: bit for bit
// its contents. Matrices in 8 bits get the dtype of config.json, or fp32 without one. A file of the
// checkpoint has `file_bytes`, or one tensor more, which is also the memory in use.
// checkpoint.initial_load_path accepts the result. Returns its path.
std::filesystem::path import_from_hugging_face(const std::filesystem::path& from,
                                               const std::filesystem::path& root,
                                               std::int64_t file_bytes = std::int64_t{1} << 30);

}  // namespace rondo

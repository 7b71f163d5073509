// Writes a folder of a model that Hugging Face's transformers loads without additions: config.json,
// generation_config.json, the weights in model.safetensors or in shards with an index, and copies
// of the tokenizer's files.
//
// The folder appears complete or not at all: it is written next to its final path as
// ".NAME.tmp-PID-N" and renamed last. An unfinished writer removes the temporary folder; a killed
// process leaves it. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/hugging_face/folder.h"
#include "checkpoint/safetensors/writer.h"

namespace rondo::hugging_face {

struct WriteOptions {
  std::uint64_t max_shard_bytes = 5'000'000'000;  // of tensors; a larger tensor has its own file
  std::filesystem::path tokenizer = {};           // a tokenizer's file or its folder; empty: nothing to copy
};

// Removes the temporary folders that unfinished writers of `path` left. REQUIRES: none of these
// writers is alive.
void remove_unfinished(const std::filesystem::path& path);

class FolderWriter {
 public:
  // Writes weights in config.dtype ("float32", "float16", "bfloat16"). Reserves the disk space of
  // all weights and writes the small files. REQUIRES: `path` does not exist, or is an empty folder.
  // Throws Error(environment), or Error(resources) when the disk is too full.
  FolderWriter(std::filesystem::path path, const ModelConfig& config,
               const std::vector<Parameter>& parameters, const WriteOptions& options = {});
  ~FolderWriter();
  FolderWriter(const FolderWriter&) = delete;
  FolderWriter& operator=(const FolderWriter&) = delete;

  safetensors::Dtype dtype() const { return dtype_; }

  // Writes elements of the flattened parameter, from `element_offset` on. `bytes` are
  // little-endian, in the parameter's dtype: dtype(), or F32 if always_fp32. REQUIRES: every
  // element of every parameter exactly once, in any order.
  void write(std::string_view parameter, std::uint64_t element_offset, std::span<const std::byte> bytes);

  // Checks that all elements were written, syncs, and renames the folder. REQUIRES: no
  // call follows.
  void finish();

 private:
  struct Shard {
    std::vector<safetensors::TensorInfo> tensors;
    std::uint64_t bytes = 0;
  };
  std::vector<Shard> cut(const std::vector<Parameter>& parameters, std::uint64_t max_shard_bytes) const;
  void create_shards(std::vector<Shard> shards);
  void write_small_files(const ModelConfig& config, const WriteOptions& options) const;

  std::filesystem::path path_, pending_;
  safetensors::Dtype dtype_;
  std::vector<std::unique_ptr<safetensors::Writer>> shards_;
  struct Place {
    safetensors::Writer* shard;
    safetensors::Dtype dtype;
  };
  std::map<std::string, Place, std::less<>> by_parameter_;
};

}  // namespace rondo::hugging_face

// Writes a folder of a model so that Hugging Face's transformers loads it with nothing added: config.json,
// generation_config.json, the weights in model.safetensors or in shards with an index, and the tokenizer's
// files, copied byte for byte.
//
// The folder appears whole or not at all: it is written beside its place, as ".NAME.tmp-PID-N", and renamed
// last. That one goes away with a writer that did not finish (a killed process leaves it). Not thread-safe.
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
  std::uint64_t max_shard_bytes = 5'000'000'000;  // of tensors; a larger tensor has a file of its own
  std::filesystem::path tokenizer = {};  // a tokenizer.json, or the folder of it; empty: no files to copy
};

// Removes what writers of `path` left beside it that did not finish. REQUIRES: none of them is alive.
void remove_unfinished(const std::filesystem::path& path);

class FolderWriter {
 public:
  // Weights are written in config.dtype ("float32", "float16", "bfloat16"). Takes the disk space of all of
  // them and writes the small files. `path` must not exist, or be an empty folder. Throws Error(environment),
  // or Error(resources) where the disk is too full.
  FolderWriter(std::filesystem::path path, const ModelConfig& config,
               const std::vector<Parameter>& parameters, const WriteOptions& options = {});
  ~FolderWriter();
  FolderWriter(const FolderWriter&) = delete;
  FolderWriter& operator=(const FolderWriter&) = delete;

  safetensors::Dtype dtype() const { return dtype_; }

  // `bytes` are elements of the flattened parameter, from `element_offset` on, in the parameter's dtype
  // (dtype(), or F32 where always), little-endian. In
  // any order; every element of every parameter exactly once (otherwise it is a bug of the caller).
  void write(std::string_view parameter, std::uint64_t element_offset, std::span<const std::byte> bytes);

  // Checks that all came, syncs, and gives the folder its name. Nothing may follow.
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

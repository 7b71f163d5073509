// Reads a folder of a model in the form of Hugging Face's transformers: config.json, and the
// weights in model.safetensors, or in the shards that model.safetensors.index.json names, or
// without both in all of model-00001-of-N.safetensors.
//
// Opening reads only the headers of the files. Weights are read on request. Matrices may be in 8 or
// 4 bits (fp8_blocks.h, mxfp4_blocks.h) if config.json says so. Used by one thread at a time;
// movable. Errors are Error(checkpoint), or Error(resources) when memory or descriptors
// are exhausted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/hugging_face/config.h"
#include "checkpoint/safetensors/reader.h"

namespace rondo::hugging_face {

// A parameter, by its name in these files.
struct Parameter {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  bool always_fp32 = false;  // always written in fp32
};

// Returns the tensors that are stacked in one parameter of this program. A name with a `*` is one
// tensor for each index of the first dimension. Any other name is the parameter itself.
std::vector<Parameter> stacked(const std::string& name, const std::vector<std::int64_t>& sizes);

// Returns the tensors of a model: its parameters, then the biases of its routers. `Model` is a
// Decoder (models/parts/decoder.h), which this header does not include.
template <class Model>
std::vector<Parameter> parameters_of(const Model& model) {
  std::vector<Parameter> parameters;
  for (const auto& rule : model.parameters())
    for (Parameter& parameter : stacked(rule.hugging_face_name, rule.sizes))
      parameters.push_back(std::move(parameter));
  for (const auto& bias : model.expert_biases())
    parameters.push_back({bias.hugging_face_name, {bias.experts}, /*always_fp32=*/true});
  return parameters;
}

// A tensor and its file. Valid for the lifetime of the folder, even if the folder is moved.
struct StoredTensor {
  const safetensors::File* file;
  const safetensors::TensorInfo* info;
  const StoredTensor* scales = nullptr;  // scales of a matrix in 8 bits, or in 4 bits with the blocks `info`

  safetensors::Dtype dtype() const { return info->dtype; }
  std::string file_name() const { return file->path().filename().string(); }
  // Reads as safetensors::File does: into `out`, or returns elements [begin, end).
  void read(std::uint64_t begin, std::span<std::byte> out) const { file->read(*info, begin, out); }
  std::vector<std::byte> elements(std::uint64_t begin, std::uint64_t end) const {
    return file->bytes(*info, begin, end);
  }
  // Returns how many elements are read together: those of an expert in 4 bits, otherwise 1.
  std::uint64_t together() const;
  // Reads elements from `begin` on as numbers. REQUIRES: scales, and a matrix that
  // Folder::check() accepted.
  void dequantize(std::uint64_t begin, std::span<float> to) const;
};

class Folder {
 public:
  // Reads config.json and the headers of the weights. An index may name files in the folder only,
  // not paths, and must agree with their contents.
  explicit Folder(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const ModelConfig& config() const { return config_.config; }
  bool quantized() const { return config_.quantization != Quantization::none; }
  const std::vector<std::string>& warnings() const { return config_.warnings; }

  // Throws, listing all problems, unless the tensors are exactly `parameters`: none missing or
  // unexpected, each of its shape. The dtype is F32, F16 or BF16; or F8_E4M3 (a matrix) or MXFP4
  // (experts), with scales. Tables of rotary frequencies, which old files contain, are accepted. So
  // are layers for multi-token prediction, and of a model with tied embeddings a head that equals
  // the embedding, which is read to compare them.
  void check(std::span<const Parameter> parameters) const;

  // Returns a tensor. REQUIRES: a name that check() accepted.
  StoredTensor find(std::string_view name) const;

 private:
  void open_shards();
  void find_scales();
  void find_blocks();

  std::filesystem::path path_;
  ReadConfig config_;
  std::vector<safetensors::File> files_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

}  // namespace rondo::hugging_face

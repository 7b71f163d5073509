// A folder of a model as Hugging Face's transformers stores it, for reading: config.json, and the weights in
// model.safetensors or in the shards that model.safetensors.index.json names.
//
// Opening reads the headers of the files alone; of the weights only what is asked for is read.
// Matrices may be in 8 bits or 4 (fp8_blocks.h, mxfp4_blocks.h) where config.json says so. Used by one thread
// at a time; movable. Errors are Error(checkpoint), or Error(resources) where memory or descriptors ran out.
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

// A parameter by its name in these files.
struct Parameter {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  bool always_fp32 = false;  // written so, whatever the dtype of the others
};

// The tensors that lie one behind the other in a parameter of ours. A name with a `*` stands for one tensor
// for each index of the first dimension; any other for the parameter itself.
std::vector<Parameter> stacked(const std::string& name, const std::vector<std::int64_t>& sizes);

// Of a model (models/parts/decoder.h: Decoder), which this header does not include: its parameters, then the
// biases of its routers.
template <class Model>
std::vector<Parameter> parameters_of(const Model& model) {
  std::vector<Parameter> all;
  for (const auto& rule : model.parameters())
    for (Parameter& one : stacked(rule.hugging_face_name, rule.sizes)) all.push_back(std::move(one));
  for (const auto& bias : model.expert_biases())
    all.push_back({bias.hugging_face_name, {bias.experts}, /*always_fp32=*/true});
  return all;
}

// A tensor and the file that it is in. Valid as long as the folder, wherever that is moved.
struct StoredTensor {
  const safetensors::File* file;
  const safetensors::TensorInfo* info;
  const StoredTensor* scales = nullptr;  // of matrices in 8 bits, or in 4, whose blocks `info` is

  safetensors::Dtype dtype() const { return info->dtype; }
  // As safetensors::File reads: into `out`, or elements [begin, end) in memory of its own.
  void read(std::uint64_t begin, std::span<std::byte> out) const { file->read(*info, begin, out); }
  std::vector<std::byte> elements(std::uint64_t begin, std::uint64_t end) const {
    return file->bytes(*info, begin, end);
  }
  // How many elements are read together: those of an expert in 4 bits.
  std::uint64_t together() const;
  // The same as numbers. REQUIRES scales, and matrices that Folder::check() passed.
  void dequantize(std::uint64_t begin, std::span<float> to) const;
};

class Folder {
 public:
  // Reads config.json and the headers of the weights. An index may name files of the folder alone (no paths),
  // and must agree with what they hold.
  explicit Folder(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const ModelConfig& config() const { return config_.config; }
  bool quantized() const { return config_.quantization != Quantization::none; }
  const std::vector<std::string>& warnings() const { return config_.warnings; }

  // Throws, listing them all, unless the tensors are exactly `parameters`: none missing, none unexpected,
  // each of its shape and of dtype F32, F16 or BF16, or a matrix of F8_E4M3 or experts in MXFP4, with scales.
  // Tables of rotary frequencies, which old files carry, pass, as do layers that predict tokens further
  // ahead.
  void check(std::span<const Parameter> parameters) const;

  // REQUIRES a name that check() found.
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

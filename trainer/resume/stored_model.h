// Reads a stored model, from a Hugging Face folder or a committed checkpoint of any number of
// ranks. Weights are read by the names of this program's parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/hugging_face/folder.h"
#include "checkpoint/reader.h"
#include "models/parts/decoder.h"
#include "parallel/flat_shard.h"
#include "support/fields.h"

namespace rondo {

class StoredModel {
 public:
  // Reads config.json or the manifest, and checks that every tensor exists; reads no weights. Logs
  // the folder's warnings. Throws Error(checkpoint) if it is damaged, or its model is unknown to
  // this version.
  explicit StoredModel(const std::filesystem::path& folder);

  const std::string& name() const { return name_; }    // model.name
  const FieldValues& sizes() const { return sizes_; }  // all sizes of the model
  const std::shared_ptr<const Decoder>& decoder() const { return decoder_; }
  // Returns the token ids of config.json; empty for a checkpoint.
  const hugging_face::TokenIds& tokens() const { return tokens_; }

  // Fills `shard`, contiguous, with the elements at `place` of a parameter or a router's bias.
  void load(const std::string& parameter, const FlatShard& place, at::Tensor& shard);

 private:
  void open_folder(const std::filesystem::path& path);
  void open_checkpoint(const std::filesystem::path& path);

  std::optional<hugging_face::Folder> folder_;  // either folder_ or checkpoint_
  std::optional<checkpoint::Reader> checkpoint_;
  std::string name_;
  FieldValues sizes_;
  std::shared_ptr<const Decoder> decoder_;
  hugging_face::TokenIds tokens_;
  std::map<std::string, std::string> hugging_face_names_;  // by the names of this program
};

}  // namespace rondo

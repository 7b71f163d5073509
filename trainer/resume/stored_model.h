// A model as it is stored, in a Hugging Face folder or in a committed checkpoint of any number of ranks,
// whose weights are read by the names of our parameters.
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
  // Reads config.json or the manifest, and that every tensor is there; no weights. Logs the folder's
  // warnings. Throws Error(checkpoint) where it is damaged, or of no model of this version.
  explicit StoredModel(const std::filesystem::path& folder);

  const std::string& name() const { return name_; }    // model.name
  const FieldValues& sizes() const { return sizes_; }  // all of the model
  const std::shared_ptr<const Decoder>& decoder() const { return decoder_; }
  // What config.json says; nothing of a checkpoint.
  const hugging_face::TokenIds& tokens() const { return tokens_; }

  // Fills `shard`, contiguous, with what `place` puts there of the parameter or the bias of a router.
  void load(const std::string& parameter, const FlatShard& place, at::Tensor& shard);

 private:
  void open_folder(const std::filesystem::path& path);
  void open_checkpoint(const std::filesystem::path& path);

  std::optional<hugging_face::Folder> folder_;  // one of these two
  std::optional<checkpoint::Reader> checkpoint_;
  std::string name_;
  FieldValues sizes_;
  std::shared_ptr<const Decoder> decoder_;
  hugging_face::TokenIds tokens_;
  std::map<std::string, std::string> hugging_face_names_;  // by ours
};

}  // namespace rondo

#include "trainer/resume/stored_model.h"

#include "config/sizes.h"
#include "models/parts/model_spec.h"
#include "support/log.h"
#include "trainer/resume/load_weights.h"

namespace rondo {

StoredModel::StoredModel(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "config.json")) {
    open_folder(folder);
  } else {
    open_checkpoint(folder);
  }
  for (const Field& field : *find_model_spec(name_)->fields) sizes_.emplace(field.name, field.default_value);
}

void StoredModel::open_folder(const std::filesystem::path& path) {
  folder_.emplace(path);
  for (const std::string& warning : folder_->warnings()) log_warning(warning);
  const hugging_face::ModelConfig& config = folder_->config();
  name_ = config.model;
  sizes_ = config.sizes;
  tokens_ = config.tokens;
  decoder_ = make_decoder(name_, sizes_);
  folder_->check(hugging_face::parameters_of(*decoder_));
  for (const ParameterRule& rule : decoder_->parameters())
    hugging_face_names_[rule.name] = rule.hugging_face_name;
  for (const ExpertBias& bias : decoder_->expert_biases())
    hugging_face_names_[bias.name] = bias.hugging_face_name;
}

void StoredModel::open_checkpoint(const std::filesystem::path& path) {
  checkpoint_.emplace(path);
  const checkpoint::ModelFacts& facts = checkpoint_->manifest().model;
  name_ = facts.name;
  sizes_ = sizes_from_text(facts.name, facts.sizes, path.string());
  decoder_ = make_decoder(name_, sizes_);
  for (const ParameterRule& rule : decoder_->parameters())
    check_stored(checkpoint_->manifest(), "model/" + rule.name, rule.sizes);
  for (const ExpertBias& bias : decoder_->expert_biases())
    check_stored(checkpoint_->manifest(), "model/" + bias.name, {bias.experts});
}

void StoredModel::load(const std::string& parameter, const FlatShard& place, at::Tensor& shard) {
  if (folder_)
    load_weights(shard, *folder_, hugging_face_names_.at(parameter), place);
  else
    load_weights(shard, *checkpoint_, "model/" + parameter, place);
}

}  // namespace rondo

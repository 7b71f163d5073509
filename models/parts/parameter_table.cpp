#include "models/parts/parameter_table.h"

#include <cmath>

namespace rondo {
namespace {

// The bucket of a parameter: its block, with the experts of a block apart; the embedding; norm and head. An
// embedding that is also the head is gathered once, with the last norm.
std::string bucket_of(const std::string& name, bool tie_embeddings) {
  if (name.starts_with("layers.")) {
    const std::string block = name.substr(0, name.find('.', sizeof "layers."));
    return name.find(".experts.") == std::string::npos ? block : block + ".experts";
  }
  if (tie_embeddings) return "embedding_and_head";
  return name.starts_with("tok_embeddings.") ? "embedding" : "head";
}

}  // namespace

ParameterTable::ParameterTable(const Sizes& sizes, const AddBlock& add_block)
    : tie_embeddings_(sizes.tie_embeddings) {
  const double head_std = 1.0 / std::sqrt(static_cast<double>(sizes.dim));
  const Init head{Init::Kind::truncated_normal, head_std, 3.0 * head_std};
  const Init embedding{Init::Kind::normal, 1.0, 0.0};
  add("tok_embeddings", "model.embed_tokens", {sizes.vocab_size, sizes.dim}, ParallelStyle::colwise,
      tie_embeddings_ ? head : embedding);
  for (layer_ = 0; layer_ < sizes.n_layers; ++layer_) {
    ours_ = "layers." + std::to_string(layer_) + ".";
    theirs_ = "model." + ours_;
    add_block(*this, layer_);
  }
  ours_ = theirs_ = "";
  add("norm", "model.norm", {sizes.dim}, ParallelStyle::replicated, kOnes);
  if (!tie_embeddings_) add("output", "lm_head", {sizes.vocab_size, sizes.dim}, ParallelStyle::colwise, head);
}

void ParameterTable::add(const std::string& name, const std::string& theirs, std::vector<std::int64_t> sizes,
                         ParallelStyle style, const Init& init) {
  const std::string full = ours_ + name + ".weight";
  rules_.push_back(
      {full, std::move(sizes), style, init, theirs_ + theirs + ".weight", bucket_of(full, tie_embeddings_)});
}

void ParameterTable::add_feed_forward(const std::string& name, const std::string& theirs, std::int64_t dim,
                                      std::int64_t hidden) {
  add(name + ".w1", theirs + ".gate_proj", {hidden, dim}, ParallelStyle::colwise, kNormal);
  add(name + ".w3", theirs + ".up_proj", {hidden, dim}, ParallelStyle::colwise, deep_normal());
  add(name + ".w2", theirs + ".down_proj", {dim, hidden}, ParallelStyle::rowwise, deep_normal());
}

Init ParameterTable::deep_normal() const {
  return {kNormal.kind, kNormal.value / std::sqrt(2.0 * static_cast<double>(layer_ + 1)), kNormal.cut};
}

}  // namespace rondo

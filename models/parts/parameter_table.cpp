#include "models/parts/parameter_table.h"

#include <cmath>

namespace rondo {
namespace {

// Returns the bucket of a parameter: its block, the experts of its block, the embedding, or the
// head with the last norm. A tied embedding is gathered once, with the last norm.
std::string bucket_of(const std::string& name, bool tie_embeddings) {
  if (name.starts_with("layers.")) {
    const std::string block = name.substr(0, name.find('.', sizeof "layers."));
    return name.find(".experts.") == std::string::npos ? block : block + ".experts";
  }
  if (tie_embeddings) return "embedding_and_head";
  return name.starts_with("tok_embeddings.") ? "embedding" : "head";
}

}  // namespace

bool ParameterRule::is_hidden_matrix() const {
  const bool of_experts = style == ParallelStyle::experts && sizes.size() == 3;
  return of_experts || (linear && name.starts_with("layers."));
}

InitialWeights torchtitan_weights(std::int64_t dim) {
  using enum Init::Kind;
  const double head = 1.0 / std::sqrt(static_cast<double>(dim));
  // The matrices' cut of 2 is torch's default bound.
  return {{normal, 1.0, 0.0}, {truncated_normal, head, 3.0 * head}, {truncated_normal, 0.02, 2.0}, true};
}

ParameterTable::ParameterTable(const DecoderEnds& ends, const StagePart& part, const InitialWeights& initial,
                               const AddBlock& add_block)
    : ends_(ends), initial_(initial) {
  const std::vector<std::int64_t> sizes = {ends.vocab_size, ends.dim};
  if (part.embedding)
    add("tok_embeddings", "model.embed_tokens", sizes, ParallelStyle::colwise,
        ends.tie_embeddings ? initial.head : initial.embedding);
  for (std::int64_t layer = part.first_layer; layer < part.end(); ++layer) {
    layer_ = static_cast<std::size_t>(layer);
    ours_ = "layers." + std::to_string(layer_) + ".";
    theirs_ = "model." + ours_;
    add_block(*this, layer_);
  }
  ours_ = theirs_ = "";
  if (!part.head) return;
  add("norm", "model.norm", {ends.dim}, ParallelStyle::replicated, kOnes);
  if (!ends.tie_embeddings)
    add_linear("output", "lm_head", ends.vocab_size, ends.dim, ParallelStyle::colwise, initial.head);
}

void ParameterTable::add(const std::string& name, const std::string& theirs, std::vector<std::int64_t> sizes,
                         ParallelStyle style, const Init& init, const ExpertCut& expert_cut) {
  add_named(name + ".weight", theirs + ".weight", std::move(sizes), style, init, expert_cut);
}

void ParameterTable::add_linear(const std::string& name, const std::string& theirs, std::int64_t out,
                                std::int64_t in, ParallelStyle style, const Init& init) {
  add(name, theirs, {out, in}, style, init);
  rules_.back().linear = true;
}

void ParameterTable::add_named(const std::string& name, const std::string& theirs,
                               std::vector<std::int64_t> sizes, ParallelStyle style, const Init& init,
                               const ExpertCut& expert_cut, bool inputs_first) {
  const std::string full = ours_ + name;
  rules_.push_back({full, std::move(sizes), style, init, theirs_ + theirs, expert_cut,
                    bucket_of(full, ends_.tie_embeddings), /*linear=*/false, inputs_first});
}

Init ParameterTable::deep() const {
  Init init = initial_.matrix;
  if (initial_.falls_with_depth) init.value /= std::sqrt(2.0 * static_cast<double>(layer_ + 1));
  return init;
}

}  // namespace rondo

// What the trainer knows of a model: its parameter table, its constant buffers, its forward and its cost; and
// the same of a stage of it, which is a decoder, too.
//
// A model is single-device code in plain ATen over RankContext (parallel/rank_context.h). It knows no rank,
// mesh or collective.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/parts/description.h"
#include "models/parts/kept_results.h"
#include "parallel/rank_context.h"
#include "support/fields.h"

namespace rondo {

// A constant of the forward, the same on all ranks (RoPE tables). fp64: who uses it rounds it.
struct Buffer {
  std::string name;
  at::Tensor value;
};

// What a router adds to an expert's score while it chooses, and to nothing else. No gradient moves it: the
// step does, by load (Wang et al., "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts",
// 2024). fp32, zero at first, alike on all ranks.
struct ExpertBias {
  std::string name;      // "layers.3.moe.expert_bias"
  std::int64_t experts;  // the same for all routers of a model
  std::string hugging_face_name;
};

// What a router did with the tokens of this rank.
struct RouterLoad {
  at::Tensor tokens_per_expert_E;  // how many each expert got: fp32 whole numbers
  at::Tensor dropped_tokens = {};  // Dispatched::dropped_tokens (parallel/expert_parallel.h)
};

// What experts do with a token.
struct RoutedTokens {
  std::int64_t experts = 0;            // of a layer
  std::int64_t experts_per_token = 0;  // that take it
  std::int64_t dim = 0;                // of a row
};

// Which blocks the backward computes again instead of keeping their values: each `every`-th of the decoder, 0
// for none; and of which ops it keeps the results all the same, nullptr for none
// (models/parts/activation_checkpoint.h).
struct BlockCheckpoint {
  std::int64_t every = 0;
  KeepsResults keeps = nullptr;
  bool takes(std::int64_t block) const { return every > 0 && (block + 1) % every == 0; }
};

// REQUIRES with a checkpoint: this object and the RankContext outlive the backward.
struct ForwardInputs {
  std::int64_t rows = 0, length = 0;  // B, and T: of each row the tokens that this rank has
  at::Tensor tokens_BT = {};          // int64 ids; undefined where a stage has no embedding
  // What the stage before gave, in the compute dtype: there where tokens are not.
  std::optional<at::Tensor> hidden_ND = std::nullopt;
  std::vector<at::Tensor> buffers = {};  // in the order of Decoder::buffers; fp32, or fp64 with fp64 weights
  // int64, restarting at document borders; absent: 0, 1, 2, ... in each row
  std::optional<at::Tensor> positions_BT = std::nullopt;
  // int32 cu_seqlens over the flattened tokens of whole rows, padded with their number at the end
  std::optional<at::Tensor> document_borders_N = std::nullopt;
  // int32: the positions in their row of this rank's tokens [B, T], and of all tokens [B, S] in the order of
  // ContextParallel::all_gather (parallel/context_parallel.h). Absent: 0, 1, 2, ...
  std::optional<at::Tensor> query_positions_BT = std::nullopt, key_positions_BS = std::nullopt;
  BlockCheckpoint checkpoint = {};
  std::vector<at::Tensor> expert_biases = {};  // fp32 [E] each, in the order of Decoder::expert_biases
  std::vector<RouterLoad>* loads = nullptr;    // where given, one a router: takes what it did
  std::int64_t context_ranks = 1;              // that share each row of the batch
  // The weight of a sequence in losses of whole sequences that a model adds to its gradients; 0: none.
  double sequence_weight = 0;

  static ForwardInputs of(const at::Tensor& tokens_BT) {
    return {.rows = tokens_BT.size(0), .length = tokens_BT.size(1), .tokens_BT = tokens_BT};
  }
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  // In registration order, which is also the order of the forward.
  virtual const std::vector<ParameterRule>& parameters() const = 0;
  // Tables for sequences of up to seq_len tokens.
  virtual std::vector<Buffer> buffers(std::int64_t seq_len) const = 0;
  // Logits [B, T, vocabulary] in the weights' dtype; of the vocabulary this rank's part. Of a stage without
  // the head: h [N, dim], N as parallel/rank_context.h says.
  virtual at::Tensor forward(const RankContext& ranks, const ForwardInputs& inputs) const = 0;
  // Forward and backward. A causal row counts as its whole square, as torchtitan counts it, and any other
  // mask by its pairs in proportion to a causal row's; each row is taken as one document.
  virtual std::int64_t flops_per_token(std::int64_t seq_len) const = 0;
  virtual std::int64_t vocabulary() const = 0;
  virtual std::int64_t dim() const = 0;     // of a token between layers
  virtual std::int64_t layers() const = 0;  // of this part
  virtual bool ties_embeddings() const = 0;
  // These layers alone as a decoder: parameters(), routers(), expert_biases(), their forward and its cost are
  // those of the part, under the names that they have in the whole model; buffers(), vocabulary(), dim(),
  // routed_tokens() and load_balance_coeff() are the whole's. REQUIRES: this is the whole, which has these
  // layers; not tied embeddings, unless the part is everything.
  virtual std::shared_ptr<const Decoder> stage(const StagePart& part) const = 0;
  // The routers by their module paths, in the order of the forward: "layers.3.moe".
  virtual std::vector<std::string> routers() const { return {}; }
  // One for each of the routers, or none.
  virtual std::vector<ExpertBias> expert_biases() const { return {}; }
  // Of every layer that has experts.
  virtual std::optional<RoutedTokens> routed_tokens() const { return std::nullopt; }
  // How far a bias moves in a step.
  virtual double load_balance_coeff() const { return 0; }
};

// models/described_decoder.cpp.
std::shared_ptr<const Decoder> make_decoder(Description description);
// Of the sizes of a model (models/llama3/llama3.h).
template <class Config>
requires requires(const Config& config) { config.description(); }
std::shared_ptr<const Decoder> make_decoder(const Config& config) {
  return make_decoder(config.description());
}
// The model of that name in the list of models/models.h. Throws Error(config) for an unknown name.
std::shared_ptr<const Decoder> make_decoder(const std::string& name, const FieldValues& sizes);

std::int64_t element_count(const ParameterRule& rule);
std::int64_t parameter_count(const Decoder& model);

}  // namespace rondo

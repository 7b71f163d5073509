// The trainer's interface to a model: parameter table, constant buffers, forward and cost. A
// pipeline stage of a model is a Decoder as well.
//
// A model is single-device code in plain ATen over RankContext (parallel/rank_context.h). It has no
// access to ranks, meshes or collectives.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/parts/description.h"
#include "models/parts/kept_results.h"
#include "parallel/rank_context.h"
#include "support/fields.h"

namespace rondo {

// A constant of the forward (RoPE tables), the same on all ranks. It is fp64; users round it.
struct Buffer {
  std::string name;
  at::Tensor value;
};

// The bias that a router adds to an expert's score for selection only. It has no gradient: the
// optimizer step updates it by load (Wang et al., "Auxiliary-Loss-Free Load Balancing Strategy for
// Mixture-of-Experts", 2024). fp32, initially zero, the same on all ranks.
struct ExpertBias {
  std::string name;      // "layers.3.moe.expert_bias"
  std::int64_t experts;  // the same for all routers of a model
  std::string hugging_face_name;
};

// The load of one router from this rank's tokens.
struct RouterLoad {
  at::Tensor tokens_per_expert_E;  // tokens for each expert: fp32 whole numbers
  at::Tensor dropped_tokens = {};  // Dispatched::dropped_tokens (parallel/expert_parallel.h)
};

// The sizes of routing.
struct RoutedTokens {
  std::int64_t experts = 0;            // experts in a layer
  std::int64_t experts_per_token = 0;  // experts that process a token
  std::int64_t dim = 0;                // width of a row
};

// The blocks that the backward recomputes: every `every`-th block of the decoder; 0: none. `keeps`
// selects the ops whose results are kept; nullptr: none (models/parts/activation_checkpoint.h).
struct BlockCheckpoint {
  std::int64_t every = 0;
  KeepsResults keeps = nullptr;
  bool takes(std::int64_t block) const { return every > 0 && (block + 1) % every == 0; }
};

// The inputs of one forward. REQUIRES with a checkpoint: this object and the RankContext outlive
// the backward.
struct ForwardInputs {
  std::int64_t rows = 0, length = 0;  // B, and T: the tokens of each row on this rank
  at::Tensor tokens_BT = {};          // int64 ids; undefined where a stage has no embedding
  // Hidden states of the previous stage, in the compute dtype; only on stages without tokens.
  std::optional<at::Tensor> hidden_ND = std::nullopt;
  // In the order of Decoder::buffers; fp32, or fp64 with fp64 weights.
  std::vector<at::Tensor> buffers = {};
  // int64, restarting at document borders. Absent: 0, 1, 2, ... in each row.
  std::optional<at::Tensor> positions_BT = std::nullopt;
  // int32 cu_seqlens over the flattened tokens of whole rows. The number of tokens pads the end.
  std::optional<at::Tensor> document_borders_N = std::nullopt;
  // int32 positions in their row: of this rank's tokens [B, T], and of all tokens [B, S] in the
  // order of ContextParallel::all_gather (parallel/context_parallel.h). Absent: 0, 1, 2, ...
  std::optional<at::Tensor> query_positions_BT = std::nullopt, key_positions_BS = std::nullopt;
  BlockCheckpoint checkpoint = {};
  std::vector<at::Tensor> expert_biases = {};  // fp32 [E] each; order of Decoder::expert_biases
  std::vector<RouterLoad>* loads = nullptr;    // if set, receives one entry per router
  std::int64_t context_ranks = 1;              // ranks that share each row of the batch
  // Weight of a sequence in sequence-level losses, which a model adds to its gradients; 0: none.
  double sequence_weight = 0;
  // If set, replaces the head's product: the forward returns its result instead of logits. Receives
  // the normalized hidden states h [T, D] of all tokens of the ranks that share the head, and this
  // rank's rows [V, D] of the head's weight. The gradient of the weight may have any dtype.
  std::function<at::Tensor(const at::Tensor& h_TD, const at::Tensor& weight_VD)> head = {};

  static ForwardInputs of(const at::Tensor& tokens_BT) {
    return {.rows = tokens_BT.size(0), .length = tokens_BT.size(1), .tokens_BT = tokens_BT};
  }
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Returns the rules in registration order, which is also the order of the forward.
  virtual const std::vector<ParameterRule>& parameters() const = 0;
  // Returns tables for sequences of up to seq_len tokens.
  virtual std::vector<Buffer> buffers(std::int64_t seq_len) const = 0;
  // Returns logits [B, T, vocabulary] in the weights' dtype, for this rank's shard of the
  // vocabulary, or the result of ForwardInputs::head. A stage without the head returns h [N, dim]
  // (N: parallel/rank_context.h).
  virtual at::Tensor forward(const RankContext& ranks, const ForwardInputs& inputs) const = 0;
  // Counts forward and backward. A causal row counts as its whole square, as in torchtitan. Other
  // masks count in proportion to their pairs. Each row counts as one document.
  virtual std::int64_t flops_per_token(std::int64_t seq_len) const = 0;
  // Returns the part of it that attention is.
  virtual std::int64_t attention_flops_per_token(std::int64_t seq_len) const = 0;
  virtual std::int64_t vocabulary() const = 0;
  virtual std::int64_t dim() const = 0;     // width of the hidden states
  virtual std::int64_t layers() const = 0;  // layers of this part
  virtual bool ties_embeddings() const = 0;
  // Returns `part` as a decoder. parameters(), routers(), expert_biases(), the forward and its cost
  // cover only the part, under the names of the whole model. buffers(), vocabulary(), dim(),
  // routed_tokens() and load_balance_coeff() are those of the whole model. REQUIRES: this decoder
  // is the whole model and has these layers; its embeddings are not tied, unless the part is the
  // whole model.
  virtual std::shared_ptr<const Decoder> stage(const StagePart& part) const = 0;
  // Returns the module paths of the routers, in the order of the forward: "layers.3.moe".
  virtual std::vector<std::string> routers() const { return {}; }
  // Returns one bias for each router, or an empty list.
  virtual std::vector<ExpertBias> expert_biases() const { return {}; }
  // Returns the sizes of routing, the same for every layer with experts.
  virtual std::optional<RoutedTokens> routed_tokens() const { return std::nullopt; }
  // Returns the step of a bias update.
  virtual double load_balance_coeff() const { return 0; }
};

// Defined in models/described_decoder.cpp.
std::shared_ptr<const Decoder> make_decoder(Description description);
// Creates a decoder from a model's sizes (models/llama3/llama3.h).
template <class Config>
requires requires(const Config& config) { config.description(); }
std::shared_ptr<const Decoder> make_decoder(const Config& config) {
  return make_decoder(config.description());
}
// Creates the model `name` of the list in models/models.h. Throws Error(config) for an
// unknown name.
std::shared_ptr<const Decoder> make_decoder(const std::string& name, const FieldValues& sizes);

std::int64_t element_count(const ParameterRule& rule);
std::int64_t parameter_count(const Decoder& model);

}  // namespace rondo

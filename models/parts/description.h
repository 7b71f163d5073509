// What a decoder is made of, as data. Its table of parameters (described_parameters) and its forward
// (models/described_decoder.cpp) both follow from it. A model describes itself in these words, as in
// models/llama3/llama3_config.cpp; what they cannot say is a new part here, and not a switch inside another.
// No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "models/parts/parameter_table.h"
#include "ops/attention/attention_mask.h"

namespace rondo {

// --- rotary embedding: the pair i of a head turns by theta^(-2 i / width) a token, but for the scaling ---

// Long waves are divided by the factor, short ones kept, a linear blend between (Llama 3.1).
struct WavelengthScaling {
  double factor, low_freq_factor, high_freq_factor;
  std::int64_t original_max_seq_len;
};
// Fast pairs are kept, slow ones divided by the factor, a linear blend between (YaRN).
struct YarnScaling {
  double factor, beta_fast, beta_slow;
  std::int64_t original_max_seq_len;
  bool whole_pairs = true;     // the blend begins and ends at one
  double scale_of_tables = 1;  // factor on cosines and sines
};
struct Rotary {
  double theta;
  std::int64_t width;  // elements of a head that are rotated; even
  std::variant<std::monostate, WavelengthScaling, YarnScaling> scaling = {};
};

// --- attention: what becomes of the normed stream ---

// RMSNorm of queries and keys: before they are rotated with one weight for all heads, over each head, or over
// all of the projection; or over each head when it is rotated, without a weight.
enum class QkNorm : std::uint8_t { none, per_head, whole, rotated };

// What turns together of a head: the elements i and i + width / 2, as Hugging Face stores Llama; or
// neighbours, 2i and 2i + 1.
enum class RotatedPairs : std::uint8_t { none, halves, neighbours };

// Queries grow with their position t, by 1 + scale ln(1 + floor((t + 1) / step)) (after Nakanishi,
// "Scalable-Softmax Is Superior for Attention", 2025, arXiv 2501.19399).
struct QueryGrowth {
  double scale = 0;  // 0: they do not
  std::int64_t step = 8192;
};

// Grouped queries (Ainslie et al. 2023).
struct GroupedQueryAttention {
  std::int64_t heads, kv_heads, head_dim;
  QkNorm qk_norm = QkNorm::none;
  double norm_eps = 0;
  AttentionMask mask = {};
  bool biases = false;  // of all four projections
  bool sinks = false;   // a logit of each head that takes part in the softmax and has no value
  RotatedPairs pairs = RotatedPairs::halves;
  bool queries_grow = false;  // as the description's query_growth says
};

// Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024); neighbours are rotated against each other.
struct LatentAttention {
  std::int64_t heads;
  std::int64_t q_rank;  // width of the queries' latent; 0: there is none
  std::int64_t kv_rank;
  std::int64_t plain_width, rotated_width;  // of a query's or key's head; keys share what is rotated
  std::int64_t value_width;
  double norm_eps;  // of the latents' norms
  double scale;     // of the scores
  static constexpr AttentionMask mask = {};
};

// --- what follows attention ---

// SwiGLU.
struct FeedForward {
  std::int64_t width;
};

// What an expert is chosen by.
struct RouterOptions {
  std::int64_t top_k = 1;
  bool sigmoid = false;       // scores of the logits: sigmoid, or softmax over the experts
  std::int64_t n_groups = 1;  // equal groups of neighbouring experts; a group's score is the sum of its
  std::int64_t n_limited_groups = 1;  // two best, and a token chooses in this many of the best groups
  bool norm = false;                  // divide the chosen scores of a token by their sum
  double scale = 1.0;                 // then multiply them
};

// A SwiGLU of two matrices; of one matrix, gates before ups; or gpt-oss's, of one matrix whose columns are
// gates and ups in turn, with biases:
//   gate = min(gate, 7), up = clamp(up, -7, 7), (up + 1) * gate * sigmoid(1.702 gate)
enum class ExpertKind : std::uint8_t { swiglu, fused_swiglu, clamped_swiglu };

// What all tokens take is a SwiGLU.
struct MixtureOfExperts {
  RouterOptions router;
  std::int64_t experts;
  std::int64_t width;         // of one
  std::int64_t shared_width;  // of what all tokens take; 0: there is none
  bool has_bias;              // on the choice of an expert, against its load
  ExpertKind kind = ExpertKind::swiglu;
  bool router_has_bias = false;      // a parameter that is added to the logits
  bool scores_scale_inputs = false;  // a score multiplies what its expert reads, and not what it gives
};

// --- the whole ---

// Before a part, of what it reads; or after it, of what it adds to the stream.
enum class NormPlacement : std::uint8_t { before, after };

struct Block {
  std::variant<GroupedQueryAttention, LatentAttention> attention;
  std::variant<FeedForward, MixtureOfExperts> feed_forward;
  NormPlacement norms = NormPlacement::before;
};

// How transformers names parts of a layer where models differ.
struct LayerNames {
  std::string feed_forward = "mlp", router = "gate", shared_experts = "shared_experts";
};

struct Description {
  DecoderEnds ends;  // embedding, last norm and head
  double norm_eps;   // of all norms but those inside attention
  Rotary rotary;
  InitialWeights initial_weights;
  std::vector<Block> blocks;  // of the layers, in order
  // Of the routers: how far the bias of an expert's choice moves in a step, and the factor on the auxiliary
  // loss of a sequence's load (models/parts/sequence_balance.h).
  double load_balance_coeff = 0, sequence_balance_coeff = 0;
  QueryGrowth query_growth = {};
  LayerNames names = {};
};

StagePart whole_of(const Description& description);
ParameterTable described_parameters(const Description& description, const StagePart& part);
// Of the attention of each layer.
std::vector<AttentionMask> attention_masks(const Description& description);

}  // namespace rondo

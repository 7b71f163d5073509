// The description of a decoder, as data. It determines the parameter table (described_parameters)
// and the forward (models/described_decoder.cpp). Each model builds one, as in
// models/llama3/llama3_config.cpp. For a model that needs something else, add a new part here, not
// a switch inside another part. No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "models/parts/parameter_table.h"
#include "ops/attention/attention_mask.h"

namespace rondo {

//--- rotary embedding: pair i of a head rotates by theta^(-2 i / width) per token, unscaled ---

// Llama 3.1's scaling: the factor divides low frequencies, keeps high ones, and a linear blend
// joins them.
struct WavelengthScaling {
  double factor, low_freq_factor, high_freq_factor;
  std::int64_t original_max_seq_len;
};
// YaRN: keeps high frequencies, divides low ones by the factor, and blends linearly between them.
struct YarnScaling {
  double factor, beta_fast, beta_slow;
  std::int64_t original_max_seq_len;
  bool whole_pairs = true;     // round the bounds of the blend to whole pairs
  double scale_of_tables = 1;  // factor on cosines and sines
};
struct Rotary {
  double theta;
  std::int64_t width;  // elements of a head that are rotated; even
  std::variant<std::monostate, WavelengthScaling, YarnScaling> scaling = {};
};

// --- attention ---

// RMSNorm of queries and keys. per_head and whole apply before rotation: per_head over each head,
// with one weight for all heads, and whole over the whole projection. `rotated` applies to each
// head after rotation, without a weight.
enum class QkNorm : std::uint8_t { none, per_head, whole, rotated };

// The pairing of a head's elements: i and i + width / 2 (halves, Hugging Face's layout of Llama),
// or 2i and 2i + 1 (neighbours).
enum class RotatedPairs : std::uint8_t { none, halves, neighbours };

// Scales the query at position t by 1 + scale ln(1 + floor((t + 1) / step)) (after Nakanishi,
// "Scalable-Softmax Is Superior for Attention", 2025, arXiv 2501.19399).
struct QueryGrowth {
  double scale = 0;  // 0: no growth
  std::int64_t step = 8192;
};

// Grouped-query attention (Ainslie et al. 2023).
struct GroupedQueryAttention {
  std::int64_t heads, kv_heads, head_dim;
  QkNorm qk_norm = QkNorm::none;
  double norm_eps = 0;
  AttentionMask mask = {};
  bool biases = false;  // biases of all four projections
  bool sinks = false;   // one softmax logit per head, without a value
  RotatedPairs pairs = RotatedPairs::halves;
  bool queries_grow = false;  // by Description::query_growth
};

// Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024), with rotation of neighbours.
struct LatentAttention {
  std::int64_t heads;
  std::int64_t q_rank;  // width of the queries' latent; 0: no latent
  std::int64_t kv_rank;
  // Widths of a query or key head; key heads share the rotated part.
  std::int64_t plain_width, rotated_width;
  std::int64_t value_width;
  double norm_eps;  // epsilon of the latents' norms
  double scale;     // scale of the attention scores
  static constexpr AttentionMask mask = {};
};

// --- feed-forward ---

// SwiGLU.
struct FeedForward {
  std::int64_t width;
};

// The rules by which a router selects experts. The score of a group is the sum of its two
// best scores.
struct RouterOptions {
  std::int64_t top_k = 1;
  bool sigmoid = false;               // scores: sigmoid, or softmax over the experts
  std::int64_t n_groups = 1;          // equal groups of neighbouring experts
  std::int64_t n_limited_groups = 1;  // a token selects in this many of the best groups
  bool norm = false;                  // divide the selected scores of a token by their sum
  double scale = 1.0;                 // factor on the scores, applied last
};

// swiglu: a SwiGLU with separate matrices for gates and ups. fused_swiglu: one matrix, gates before
// ups. clamped_swiglu: gpt-oss's, with one matrix of alternating gate and up columns, and biases:
//   gate = min(gate, 7), up = clamp(up, -7, 7), (up + 1) * gate * sigmoid(1.702 gate)
enum class ExpertKind : std::uint8_t { swiglu, fused_swiglu, clamped_swiglu };

// Routed experts, and an optional shared SwiGLU for all tokens.
struct MixtureOfExperts {
  RouterOptions router;
  std::int64_t experts;
  std::int64_t width;         // width of one expert
  std::int64_t shared_width;  // width of the shared expert; 0: no shared expert
  bool has_bias;              // load-balancing bias on the selection
  ExpertKind kind = ExpertKind::swiglu;
  bool router_has_bias = false;      // a parameter added to the logits
  bool scores_scale_inputs = false;  // scores multiply the experts' inputs, not their outputs
};

// --- the decoder ---

// The place of norms: on the inputs of attention and feed-forward, or on their outputs before the
// residual addition.
enum class NormPlacement : std::uint8_t { before, after };

struct Block {
  std::variant<GroupedQueryAttention, LatentAttention> attention;
  std::variant<FeedForward, MixtureOfExperts> feed_forward;
  NormPlacement norms = NormPlacement::before;
};

// transformers' names for parts of a layer that differ between models.
struct LayerNames {
  std::string feed_forward = "mlp", router = "gate", shared_experts = "shared_experts";
};

struct Description {
  DecoderEnds ends;  // embedding, last norm and head
  double norm_eps;   // for all norms except those inside attention
  Rotary rotary;
  InitialWeights initial_weights;
  std::vector<Block> blocks;  // one per layer, in order
  // Step of the update of an expert's selection bias, and the factor on the sequence-wise auxiliary
  // loss (models/parts/sequence_balance.h).
  double load_balance_coeff = 0, sequence_balance_coeff = 0;
  QueryGrowth query_growth = {};
  LayerNames names = {};
};

StagePart whole_of(const Description& description);
ParameterTable described_parameters(const Description& description, const StagePart& part);
// Returns the mask of each layer.
std::vector<AttentionMask> attention_masks(const Description& description);

}  // namespace rondo

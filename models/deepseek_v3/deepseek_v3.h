// DeepSeek-V3 (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024): multi-head latent attention, a
// few dense blocks, then blocks with a mixture of experts. RoPE is interleaved as in Hugging Face
// checkpoints, with YaRN (Peng et al., "YaRN: Efficient Context Window Extension of Large Language
// Models", 2023). Initialization follows torchtitan.
//
// Configuration: the [model] section of a run with model.name = "deepseek_v3". No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/parts/description.h"
#include "models/parts/model_spec.h"
#include "models/parts/rotary_sizes.h"
#include "support/fields.h"

namespace rondo {

// What makes scores of the router's logits.
enum class ScoreFunction : std::uint8_t { softmax, sigmoid };
template <>
inline constexpr auto kNamesOf<ScoreFunction> = std::to_array<std::string_view>({"softmax", "sigmoid"});

struct DeepSeekV3Config : YarnSizes {
  static constexpr const char* kName = "deepseek_v3";

  std::int64_t dim = 256;
  std::int64_t n_layers = 6;
  std::int64_t n_dense_layers = 1;  // the first layers, without experts
  std::int64_t n_heads = 16;
  std::int64_t vocab_size = 2048;
  std::int64_t ffn_hidden_dim = 1024;  // width of the dense layers

  // Multi-head latent attention.
  std::int64_t q_lora_rank = 0;  // 0: one matrix projects queries
  std::int64_t kv_lora_rank = 512;
  std::int64_t qk_nope_head_dim = 128;  // unrotated part of a query or key head
  std::int64_t qk_rope_head_dim = 64;   // rotated part; key heads share it
  std::int64_t v_head_dim = 128;

  // Mixture of experts.
  std::int64_t moe_hidden_dim = 256;  // width of one expert
  std::int64_t n_experts = 8;         // routed
  std::int64_t n_shared_experts = 2;  // one feed-forward of n_shared_experts * moe_hidden_dim
  std::int64_t top_k = 3;
  ScoreFunction score_func = ScoreFunction::softmax;
  std::int64_t n_expert_groups = 1;   // equal groups of neighbouring experts
  std::int64_t n_limited_groups = 1;  // groups that a token may route to
  bool route_norm = false;            // normalize the selected scores of a token to sum to 1
  double route_scale = 1.0;
  double load_balance_coeff = 1e-3;
  double sequence_balance_coeff = 0.0;  // 0: no auxiliary loss

  double norm_eps = 1e-5;
  double latent_norm_eps = 1e-6;  // for the norms inside attention
  double rope_theta = 10000.0;
  double rope_mscale = 0.7;
  std::int64_t max_seq_len = 16384;

  DeepSeekV3Config() { rope_scaling_factor = 40.0, rope_original_max_seq_len = 4096; }

  std::int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }

  // The interface of models/models.h.
  static const Fields& fields();
  FieldValues plain() const;
  // Turns off YaRN for sequences of at most rope_original_max_seq_len tokens, the training length
  // that YaRN extends (DeepSeek-V3 report, section 4.3).
  DeepSeekV3Config for_rows(std::int64_t longest) const;
  DeepSeekV3Config small() const;
  std::vector<SizeProblem> problems() const;
  SharedSizes shared() const;
  Description description() const;
  static const hugging_face::ModelType& hugging_face_type();
};

}  // namespace rondo

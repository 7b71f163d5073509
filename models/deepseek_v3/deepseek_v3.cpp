// DeepSeek-V3's forward on the weights of one device, and its rotary frequencies.
//
// Shape suffixes: B batch, S sequence, N tokens of this rank, D model dim, H heads, R width of what is
// rotated, V width of a value's head, L latent.
#include "models/deepseek_v3/deepseek_v3.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/parts/layers.h"
#include "models/parts/moe.h"
#include "ops/attention/attention.h"
#include "ops/kernel/with_dtype.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;

// Rotates the neighbours (x_2i, x_2i+1) of x [B, S, heads, R] in fp32 (fp64 for fp64). The results stand in
// halves, in the same order for queries and keys, so that their products are those of neighbours.
Tensor rotate_pairs(const Tensor& x, const RotaryTables& rope) {
  const std::vector<Tensor> pairs = x.to(sum_dtype(x)).unflatten(-1, {x.size(-1) / 2, 2}).unbind(-1);
  return apply_rotary(pairs[0], pairs[1], rope).to(x.scalar_type());
}

double softmax_scale(const DeepSeekV3Config& c) {
  const double plain = 1.0 / std::sqrt(static_cast<double>(c.qk_head_dim()));
  const double growth = 0.1 * c.rope_mscale * std::log(c.rope_scaling_factor) + 1.0;  // 1 without scaling
  return plain * growth * growth;
}

Tensor queries(const Tensor& x_ND, const Weights& weights, const DeepSeekV3Config& c) {
  if (c.q_lora_rank == 0) return linear("wq", weights.all_gather_sequence(x_ND), weights);
  const Tensor latent_NL = linear("wq_a", x_ND, weights);
  const Tensor normed_NL = rms_norm("q_norm", latent_NL, weights, c.latent_norm_eps);
  return linear("wq_b", weights.all_gather_sequence(normed_NL), weights);
}

// What ranks that share the heads send each other are the latents, which are narrower than the model.
Tensor attention(const Tensor& x_ND, const Weights& weights, const RotaryTables& rope,
                 const ForwardInputs& inputs, const DeepSeekV3Config& c) {
  ModuleScope scope("attention");
  const std::int64_t batch = inputs.tokens_BT.size(0), time = inputs.tokens_BT.size(1);
  const auto heads = [&](const Tensor& x, std::int64_t width) { return x.view({batch, time, -1, width}); };
  const Tensor q_BSH = heads(queries(x_ND, weights, c), c.qk_head_dim());
  const auto q_parts = q_BSH.split_with_sizes({c.qk_nope_head_dim, c.qk_rope_head_dim}, -1);
  const Tensor q = at::cat({q_parts[0], rotate_pairs(q_parts[1], rope)}, -1);

  const Tensor compressed = weights.all_gather_sequence(linear("wkv_a", x_ND, weights));
  const auto kv_parts = compressed.split_with_sizes({c.kv_lora_rank, c.qk_rope_head_dim}, -1);
  const Tensor latent_NL = rms_norm("kv_norm", kv_parts[0], weights, c.latent_norm_eps);
  const Tensor kv_BSH = heads(linear("wkv_b", latent_NL, weights), c.qk_nope_head_dim + c.v_head_dim);
  const auto k_and_v = kv_BSH.split_with_sizes({c.qk_nope_head_dim, c.v_head_dim}, -1);
  const Tensor k_rope_BS1R = rotate_pairs(heads(kv_parts[1], c.qk_rope_head_dim), rope);
  const Tensor k = at::cat({k_and_v[0], k_rope_BS1R.expand({-1, -1, kv_BSH.size(2), -1})}, -1);

  const Tensor out_BHSV = rondo::attention({.q = q.transpose(1, 2),
                                            .k = k.transpose(1, 2),
                                            .v = k_and_v[1].transpose(1, 2),
                                            .document_borders = inputs.document_borders_N,
                                            .scale = softmax_scale(c)});
  return weights.reduce_scatter_sequence(
      linear("wo", out_BHSV.transpose(1, 2).reshape({batch * time, -1}), weights));
}

RouterOptions router_options(const DeepSeekV3Config& c, const ForwardInputs& inputs) {
  return {c.top_k,
          c.score_func == "sigmoid",
          c.n_expert_groups,
          c.n_limited_groups,
          c.route_norm,
          c.route_scale,
          {inputs.tokens_BT.size(0), c.sequence_balance_coeff * inputs.sequence_weight}};
}

Tensor transformer_block(const Tensor& h_ND, std::int64_t layer, const Weights& weights,
                         const RotaryTables& rope, const ForwardInputs& inputs, const DeepSeekV3Config& c) {
  const Tensor attention_in = rms_norm("attention_norm", h_ND, weights, c.norm_eps);
  const Tensor middle_ND = h_ND + attention(attention_in, weights, rope, inputs, c);
  const Tensor ffn_in = rms_norm("ffn_norm", middle_ND, weights, c.norm_eps);
  if (layer < c.n_dense_layers) return middle_ND + feed_forward("feed_forward", ffn_in, weights);
  ModuleScope scope("moe");
  const auto router = static_cast<std::size_t>(layer - c.n_dense_layers);
  const MoeOutput moe = mixture_of_experts(ffn_in, weights, inputs.expert_biases.at(router),
                                           router_options(c, inputs), c.n_shared_experts > 0);
  if (inputs.loads != nullptr) inputs.loads->at(router) = moe.load;
  return middle_ND + moe.y_TD;
}

// The pair, as a real number, that turns `rotations` times in the original length.
double pair_turning(double rotations, const DeepSeekV3Config& c) {
  const double wavelength = static_cast<double>(c.rope_original_max_seq_len) / rotations;
  return static_cast<double>(c.qk_rope_head_dim) * std::log(wavelength / (2.0 * std::numbers::pi)) /
         (2.0 * std::log(c.rope_theta));
}

// YaRN: fast pairs are kept, slow ones divided by the factor, a linear blend between.
std::vector<double> rotary_frequencies(const DeepSeekV3Config& c) {
  const auto width = static_cast<double>(c.qk_rope_head_dim);
  const double low = std::max(std::floor(pair_turning(c.rope_beta_fast, c)), 0.0);
  double high = std::min(std::ceil(pair_turning(c.rope_beta_slow, c)), width - 1.0);
  if (low == high) high += 0.001;
  std::vector<double> frequencies;
  for (std::int64_t pair = 0; pair < c.qk_rope_head_dim / 2; ++pair) {
    const auto i = static_cast<double>(pair);
    const double plain = std::pow(c.rope_theta, -2.0 * i / width);
    const double scaled = std::clamp((i - low) / (high - low), 0.0, 1.0);
    frequencies.push_back(plain * (1.0 - scaled) + plain / c.rope_scaling_factor * scaled);
  }
  return frequencies;
}

class DeepSeekV3 final : public Decoder {
 public:
  explicit DeepSeekV3(const DeepSeekV3Config& config) : config_(config), table_(config.parameters()) {}

  const std::vector<ParameterRule>& parameters() const override { return table_.rules(); }
  std::int64_t vocabulary() const override { return config_.vocab_size; }
  double load_balance_coeff() const override { return config_.load_balance_coeff; }

  std::vector<Buffer> buffers(std::int64_t seq_len) const override {
    return rotary_buffers(rotary_frequencies(config_), seq_len);
  }

  std::vector<ExpertBias> expert_biases() const override {
    std::vector<ExpertBias> biases;
    for (std::int64_t layer = config_.n_dense_layers; layer < config_.n_layers; ++layer) {
      const std::string at = "layers." + std::to_string(layer) + ".";
      biases.push_back(
          {at + "moe.expert_bias", config_.n_experts, "model." + at + "mlp.gate.e_score_correction_bias"});
    }
    return biases;
  }

  std::optional<RoutedTokens> routed_tokens() const override {
    if (config_.n_dense_layers == config_.n_layers) return std::nullopt;
    return RoutedTokens{config_.n_experts, config_.top_k, config_.dim};
  }

  Tensor forward(const Weights& weights, const ForwardInputs& inputs) const override {
    const RotaryTables rope = rotary_tables(inputs);
    const auto block = [this, &weights, &inputs, rope](const Tensor& h_ND, std::int64_t layer) {
      return transformer_block(h_ND, layer, weights, rope, inputs, config_);
    };
    return decode(weights, inputs, {config_.n_layers, config_.norm_eps, /*tie_embeddings=*/false, block});
  }

  std::int64_t flops_per_token(std::int64_t seq_len) const override {
    std::int64_t routed = 0, others = 0;
    for (const ParameterRule& rule : parameters())
      (rule.sizes.size() == 3 ? routed : others) += element_count(rule);
    const std::int64_t embedding = config_.vocab_size * config_.dim;
    const std::int64_t active = others - embedding + routed * config_.top_k / config_.n_experts;
    const std::int64_t head_dims = config_.qk_head_dim() + config_.v_head_dim;
    return 6 * active + 6 * config_.n_layers * config_.n_heads * head_dims * seq_len;
  }

 private:
  DeepSeekV3Config config_;
  ParameterTable table_;
};

}  // namespace

std::shared_ptr<const Decoder> make_decoder(const DeepSeekV3Config& config) {
  return std::make_shared<DeepSeekV3>(config);
}

}  // namespace rondo

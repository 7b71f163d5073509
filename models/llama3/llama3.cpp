// Llama 3's forward on the weights of one device, and its rotary frequencies.
//
// Shape suffixes: B batch, T sequence, N tokens of this rank, D model dim, H query heads, G key/value heads,
// K head dim, F feed-forward, V vocabulary.
#include "models/llama3/llama3.h"

#include <ATen/TensorOperators.h>

#include <cmath>
#include <numbers>

#include "models/parts/layers.h"
#include "ops/attention/attention.h"
#include "ops/kernel/with_dtype.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;

// Rotates the pairs (x_i, x_{i + K/2}) of x [B, T, heads, K] in fp32 (fp64 for fp64). The halves are unbound
// and not sliced, since the backward of a slice fills a whole tensor with zeros.
Tensor rotate_halves(const Tensor& x, const RotaryTables& rope) {
  const std::vector<Tensor> halves = x.to(sum_dtype(x)).unflatten(-1, {2, x.size(-1) / 2}).unbind(-2);
  return apply_rotary(halves[0], halves[1], rope).to(x.scalar_type());
}

// Statements, not nested calls: C++ leaves the order of arguments open, and ranks must gather in the same
// order.
Tensor attention(const Tensor& x_ND, const Weights& weights, const RotaryTables& rope,
                 const ForwardInputs& inputs, std::int64_t head_dim) {
  ModuleScope scope("attention");
  const std::int64_t batch = inputs.tokens_BT.size(0), time = inputs.tokens_BT.size(1);
  const Tensor all_ND = weights.all_gather_sequence(x_ND);
  const auto heads = [&](const Tensor& projected) { return projected.view({batch, time, -1, head_dim}); };
  const Tensor q_BTHK = heads(linear("wq", all_ND, weights));
  const Tensor k_BTGK = heads(linear("wk", all_ND, weights));
  const Tensor v_BTGK = heads(linear("wv", all_ND, weights));
  const Tensor q = rotate_halves(q_BTHK, rope).transpose(1, 2);
  const Tensor k = rotate_halves(k_BTGK, rope).transpose(1, 2);
  const Tensor out_BHTK = rondo::attention({.q = q,
                                            .k = k,
                                            .v = v_BTGK.transpose(1, 2),
                                            .document_borders = inputs.document_borders_N,
                                            .scale = 1.0 / std::sqrt(static_cast<double>(head_dim))});
  return weights.reduce_scatter_sequence(
      linear("wo", out_BHTK.transpose(1, 2).reshape({batch * time, -1}), weights));
}

Tensor transformer_block(const Tensor& h_ND, const Weights& weights, const RotaryTables& rope,
                         const ForwardInputs& inputs, const Llama3Config& config) {
  const Tensor attention_in = rms_norm("attention_norm", h_ND, weights, config.norm_eps);
  const Tensor middle_ND = h_ND + attention(attention_in, weights, rope, inputs, config.head_width());
  const Tensor ffn_in = rms_norm("ffn_norm", middle_ND, weights, config.norm_eps);
  return middle_ND + feed_forward("feed_forward", ffn_in, weights);
}

// llama-3.1's frequency scaling: long wavelengths are divided by the factor, short ones kept, a linear blend
// between.
double scaled_frequency(double frequency, const Llama3Config& c) {
  if (c.rope_scaling_factor == 1.0) return frequency;
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double original = static_cast<double>(c.rope_original_max_seq_len);
  if (wavelength < original / c.rope_high_freq_factor) return frequency;
  if (wavelength > original / c.rope_low_freq_factor) return frequency / c.rope_scaling_factor;
  const double smooth =
      (original / wavelength - c.rope_low_freq_factor) / (c.rope_high_freq_factor - c.rope_low_freq_factor);
  return (1.0 - smooth) * frequency / c.rope_scaling_factor + smooth * frequency;
}

class Llama3 final : public Decoder {
 public:
  explicit Llama3(const Llama3Config& config) : config_(config), table_(config.parameters()) {}

  const std::vector<ParameterRule>& parameters() const override { return table_.rules(); }
  std::int64_t vocabulary() const override { return config_.vocab_size; }

  std::vector<Buffer> buffers(std::int64_t seq_len) const override {
    const std::int64_t head_dim = config_.head_width();
    std::vector<double> frequencies;
    for (std::int64_t i = 0; i < head_dim; i += 2) {
      const double exponent = static_cast<double>(i) / static_cast<double>(head_dim);
      frequencies.push_back(scaled_frequency(std::pow(config_.rope_theta, -exponent), config_));
    }
    return rotary_buffers(frequencies, seq_len);
  }

  Tensor forward(const Weights& weights, const ForwardInputs& inputs) const override {
    const RotaryTables rope = rotary_tables(inputs);
    const auto block = [this, &weights, &inputs, rope](const Tensor& h_ND, std::int64_t) {
      return transformer_block(h_ND, weights, rope, inputs, config_);
    };
    return decode(weights, inputs, {config_.n_layers, config_.norm_eps, config_.tie_embeddings, block});
  }

  std::int64_t flops_per_token(std::int64_t seq_len) const override {
    const std::int64_t embedding = config_.tie_embeddings ? 0 : config_.vocab_size * config_.dim;
    const std::int64_t heads = config_.n_heads * config_.head_width();
    return 6 * (parameter_count(*this) - embedding) + 12 * config_.n_layers * heads * seq_len;
  }

 private:
  Llama3Config config_;
  ParameterTable table_;
};

}  // namespace

std::shared_ptr<const Decoder> make_decoder(const Llama3Config& config) {
  return std::make_shared<Llama3>(config);
}

}  // namespace rondo

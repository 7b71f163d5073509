// DeepSeek-V3 (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024): multi-head latent attention, a few dense
// blocks and then blocks with a mixture of experts, interleaved RoPE as Hugging Face stores it, with YaRN (Peng
// et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023); initialised as
// torchtitan does.
#pragma once

#include "models/deepseek_v3/deepseek_v3_config.h"
#include "models/parts/decoder.h"

namespace rondo {

class DeepSeekV3 final : public Decoder {
 public:
  explicit DeepSeekV3(const DeepSeekV3Config& config);

  const std::vector<ParameterRule>& parameters() const override { return parameters_; }
  std::vector<Buffer> buffers(std::int64_t seq_len) const override;
  at::Tensor forward(const Weights& weights, const ForwardInputs& inputs) const override;
  // Of the routed experts, the top_k that a token takes count.
  std::int64_t flops_per_token(std::int64_t seq_len) const override;
  std::int64_t vocabulary() const override { return config_.vocab_size; }
  std::vector<ExpertBias> expert_biases() const override;
  std::optional<RoutedTokens> routed_tokens() const override;
  double load_balance_coeff() const override { return config_.load_balance_coeff; }

 private:
  DeepSeekV3Config config_;
  std::vector<ParameterRule> parameters_;
};

}  // namespace rondo

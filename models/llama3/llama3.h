// Llama 3 (Grattafiori et al., "The Llama 3 Herd of Models", 2024): pre-norm decoder, grouped-query
// attention, SwiGLU, half-split RoPE as Hugging Face stores it, with llama-3.1 frequency scaling; initialised
// as torchtitan does.
#pragma once

#include "models/llama3/llama3_config.h"
#include "models/parts/decoder.h"

namespace rondo {

class Llama3 final : public Decoder {
 public:
  explicit Llama3(const Llama3Config& config);

  const std::vector<ParameterRule>& parameters() const override { return parameters_; }
  std::vector<Buffer> buffers(std::int64_t seq_len) const override;
  at::Tensor forward(const Weights& weights, const ForwardInputs& inputs) const override;
  std::int64_t flops_per_token(std::int64_t seq_len) const override;
  std::int64_t vocabulary() const override { return config_.vocab_size; }

 private:
  Llama3Config config_;
  std::vector<ParameterRule> parameters_;
};

}  // namespace rondo

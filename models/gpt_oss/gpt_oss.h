// gpt-oss (OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025): grouped queries with sinks and biases, a
// window in every second layer, YaRN; experts in every layer, which are clamped SwiGLUs with biases, chosen
// by a router with a bias. The softmax of the chosen logits is that of all logits over its sum. Initialised
// as GptOssPreTrainedModel of transformers does.
//
// Load is balanced by the auxiliary loss of each sequence (models/parts/sequence_balance.h).
//
// Its configuration: the [model] section of a run with model.name = "gpt_oss". No LibTorch.
#pragma once

#include <cstdint>
#include <vector>

#include "models/parts/description.h"
#include "models/parts/model_spec.h"
#include "models/parts/size_fields.h"
#include "support/fields.h"

namespace rondo {

struct GptOssConfig : GroupedQuerySizes {
  static constexpr const char* kName = "gpt_oss";

  std::int64_t sliding_window = 128;  // tokens that a query sees in layers 0, 2, ..., itself among them
  std::int64_t moe_hidden_dim = 256;  // of one expert
  std::int64_t n_experts = 8;
  std::int64_t top_k = 2;
  double load_balance_coeff = 0.0;  // 0: no bias on the choice
  double sequence_balance_coeff = 1e-3;
  double rope_scaling_factor = 32.0;  // YaRN; 1 = no scaling
  double rope_beta_fast = 32.0;
  double rope_beta_slow = 1.0;
  std::int64_t rope_original_max_seq_len = 4096;

  GptOssConfig() { rope_theta = 150000.0; }

  // What models/models.h asks of a model.
  static const Fields& fields();
  FieldValues plain() const;
  GptOssConfig small() const;
  std::vector<SizeProblem> problems() const;
  SharedSizes shared() const {
    return {{{"n_heads", n_heads}, {"n_kv_heads", n_kv_heads}}, {{"n_experts", n_experts}}};
  }
  Description description() const;
  static const hugging_face::ModelType& hugging_face_type();
};

}  // namespace rondo

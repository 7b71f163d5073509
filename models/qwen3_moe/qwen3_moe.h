// Qwen3's mixture-of-experts models (Qwen Team, "Qwen3 Technical Report", 2025). Attention is that
// in qwen3/. Every layer has experts, selected by softmax scores, and no shared expert.
// Initialization follows transformers' Qwen3MoePreTrainedModel.
//
// The original computes the auxiliary loss over the global batch. Hugging Face has no selection
// bias (load_balance_coeff above 0). rope_theta is the value of the April 2025 models; the July
// models (-2507) have 5e6 (docs/models.md).
//
// Configuration: the [model] section of a run with model.name = "qwen3_moe". No LibTorch.
#pragma once

#include <cstdint>
#include <vector>

#include "models/parts/description.h"
#include "models/parts/model_spec.h"
#include "models/parts/size_fields.h"
#include "support/fields.h"

namespace rondo {

struct Qwen3MoeConfig : RoutedSizes {
  static constexpr const char* kName = "qwen3_moe";

  bool route_norm = true;  // normalize the selected scores of a token to sum to 1

  Qwen3MoeConfig() { norm_eps = 1e-6, rope_theta = 1e6, max_seq_len = 40960; }

  // The interface of models/models.h.
  static const Fields& fields();
  FieldValues plain() const;
  Qwen3MoeConfig small() const;
  std::vector<SizeProblem> problems() const { return routed_problems(); }
  Description description() const;
  static const hugging_face::ModelType& hugging_face_type();
};

}  // namespace rondo

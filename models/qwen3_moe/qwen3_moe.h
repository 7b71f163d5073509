// Qwen3's mixtures of experts (Qwen Team, "Qwen3 Technical Report", 2025): the attention of qwen3/, and
// experts in every layer, chosen by softmax scores, with none that all tokens take; initialised as
// Qwen3MoePreTrainedModel of transformers does.
//
// The original takes the auxiliary loss over the global batch. A bias on the choice (load_balance_coeff above
// 0) is not known at Hugging Face. rope_theta is that of the models of April 2025; those of July (-2507) have
// 5e6 (docs/models.md).
//
// Its configuration: the [model] section of a run with model.name = "qwen3_moe". No LibTorch.
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

  bool route_norm = true;  // the chosen scores of a token add up to 1

  Qwen3MoeConfig() { norm_eps = 1e-6, rope_theta = 1e6, max_seq_len = 40960; }

  // What models/models.h asks of a model.
  static const Fields& fields();
  FieldValues plain() const;
  Qwen3MoeConfig small() const;
  std::vector<SizeProblem> problems() const { return routed_problems(); }
  Description description() const;
  static const hugging_face::ModelType& hugging_face_type();
};

}  // namespace rondo

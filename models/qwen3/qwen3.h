// Qwen3's dense models (Qwen Team, "Qwen3 Technical Report", 2025). They differ from Llama in an
// independent head width and RMSNorm over each head of queries and keys. Initialization follows
// transformers' Qwen3PreTrainedModel.
//
// Configuration: the [model] section of a run with model.name = "qwen3". No LibTorch.
#pragma once

#include <vector>

#include "models/parts/description.h"
#include "models/parts/model_spec.h"
#include "models/parts/size_fields.h"
#include "support/fields.h"

namespace rondo {

struct Qwen3Config : DenseSizes {
  static constexpr const char* kName = "qwen3";

  Qwen3Config() { norm_eps = 1e-6, rope_theta = 1e6, max_seq_len = 40960; }

  // The interface of models/models.h.
  static const Fields& fields();
  FieldValues plain() const;
  Qwen3Config small() const;
  std::vector<SizeProblem> problems() const { return head_problems(); }
  Description description() const;
  static const hugging_face::ModelType& hugging_face_type();
};

}  // namespace rondo

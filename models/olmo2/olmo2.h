// OLMo 2 (Ai2, "2 OLMo 2 Furious", 2025). It differs from Llama in two ways. Norms apply to the
// outputs of attention and feed-forward, before the residual addition. RMSNorm covers all queries
// and all keys of a token. Initialization follows InitMethod.normal of OLMo-core.
//
// Configuration: the [model] section of a run with model.name = "olmo2". No LibTorch.
#pragma once

#include <vector>

#include "models/parts/description.h"
#include "models/parts/model_spec.h"
#include "models/parts/size_fields.h"
#include "support/fields.h"

namespace rondo {

struct Olmo2Config : DenseSizes {
  static constexpr const char* kName = "olmo2";

  Olmo2Config() { norm_eps = 1e-6, max_seq_len = 4096; }

  // The interface of models/models.h.
  static const Fields& fields();
  FieldValues plain() const;
  Olmo2Config small() const;
  std::vector<SizeProblem> problems() const { return head_problems(); }
  Description description() const;
  static const hugging_face::ModelType& hugging_face_type();
};

}  // namespace rondo

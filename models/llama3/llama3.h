// Llama 3 (Grattafiori et al., "The Llama 3 Herd of Models", 2024). Norms precede attention and
// feed-forward. The model has grouped-query attention, SwiGLU, and rotary embedding of halves as in
// Hugging Face checkpoints, with llama-3.1 frequency scaling. Initialization follows torchtitan.
//
// Configuration: the [model] section of a run with model.name = "llama3". No LibTorch.
#pragma once

#include <cstdint>
#include <vector>

#include "models/parts/description.h"
#include "models/parts/model_spec.h"
#include "models/parts/rotary_sizes.h"
#include "models/parts/size_fields.h"
#include "support/fields.h"

namespace rondo {

struct Llama3Config : GroupedQuerySizes, WavelengthSizes {
  static constexpr const char* kName = "llama3";

  double ffn_dim_multiplier = 1.0;
  std::int64_t multiple_of = 256;
  std::int64_t ffn_hidden_dim = 0;  // 0: derived from dim, ffn_dim_multiplier and multiple_of
  // Masks of all layers in addition to the causal one; 0: none.
  std::int64_t sliding_window = 0, attention_chunk = 0;

  Llama3Config() { rope_scaling_factor = 8.0; }

  // Returns the hidden width of the feed-forward. That is ffn_hidden_dim, or 8 dim / 3 truncated,
  // times the multiplier truncated, rounded up to a multiple of `multiple_of`.
  std::int64_t ffn_width() const;

  // The interface of models/models.h.
  static const Fields& fields();
  FieldValues plain() const;
  Llama3Config small() const;
  std::vector<SizeProblem> problems() const;
  SharedSizes shared() const;
  Description description() const;
  static const hugging_face::ModelType& hugging_face_type();
};

}  // namespace rondo

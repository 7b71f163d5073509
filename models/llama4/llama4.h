// Llama 4's text model (Meta, "The Llama 4 herd", 2025; here as Llama4ForCausalLM of transformers computes
// it): grouped queries, neighbours of a head rotated with Llama 3.1's scaling and, in Scout, normed then,
// over chunks of a document; but every fourth layer sees all of it and has no rotation, and its queries grow
// with their position. Sigmoid experts whose score multiplies what they read, beside one for all tokens; in
// Maverick every second layer is dense. Initialised as Llama4PreTrainedModel does.
//
// Its configuration: the [model] section of a run with model.name = "llama4". No LibTorch.
#pragma once

#include <cstdint>
#include <vector>

#include "models/parts/description.h"
#include "models/parts/model_spec.h"
#include "models/parts/rotary_sizes.h"
#include "models/parts/size_fields.h"
#include "support/fields.h"

namespace rondo {

struct Llama4Config : RoutedSizes, WavelengthSizes {
  static constexpr const char* kName = "llama4";

  std::int64_t ffn_hidden_dim = 512;           // of the dense layers
  std::int64_t interleave_moe_layer_step = 1;  // experts in each layer of which so many follow
  std::int64_t no_rope_layer_interval = 4;     // no rotation, likewise
  std::int64_t attention_chunk = 8192;         // tokens, in layers with rotation
  bool use_qk_norm = true;                     // there, too
  double attn_scale = 0;                       // of the growth of queries in the others
  std::int64_t floor_scale = 8192;             // tokens, its step

  Llama4Config() { top_k = 1; }

  bool has_experts(std::int64_t layer) const { return (layer + 1) % interleave_moe_layer_step == 0; }
  bool has_rope(std::int64_t layer) const { return (layer + 1) % no_rope_layer_interval != 0; }

  // What models/models.h asks of a model.
  static const Fields& fields();
  FieldValues plain() const;
  Llama4Config small() const;
  std::vector<SizeProblem> problems() const;
  SharedSizes shared() const;
  Description description() const;
  static const hugging_face::ModelType& hugging_face_type();
};

}  // namespace rondo

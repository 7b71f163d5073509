// Llama 4's text model (Meta, "The Llama 4 herd", 2025), as transformers' Llama4ForCausalLM
// computes it. Grouped-query attention rotates neighbours of a head with Llama 3.1's scaling and
// attends within chunks of a document. Scout normalizes the rotated queries and keys. Every fourth
// layer attends to the whole document without rotation, and its queries grow with their position.
// Experts have sigmoid scores, which multiply the experts' inputs; one shared expert takes all
// tokens. In Maverick every second layer is dense. Initialization follows Llama4PreTrainedModel.
//
// Configuration: the [model] section of a run with model.name = "llama4". No LibTorch.
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

  std::int64_t ffn_hidden_dim = 512;           // width of the dense layers
  std::int64_t interleave_moe_layer_step = 1;  // every n-th layer has experts
  std::int64_t no_rope_layer_interval = 4;     // every n-th layer has no rotation
  std::int64_t attention_chunk = 8192;         // tokens; in layers with rotation
  bool use_qk_norm = true;                     // in layers with rotation
  double attn_scale = 0;                       // scale of query growth in layers without rotation
  std::int64_t floor_scale = 8192;             // tokens; step of query growth

  Llama4Config() { top_k = 1; }

  bool has_experts(std::int64_t layer) const { return (layer + 1) % interleave_moe_layer_step == 0; }
  bool has_rope(std::int64_t layer) const { return (layer + 1) % no_rope_layer_interval != 0; }

  // The interface of models/models.h.
  static const Fields& fields();
  FieldValues plain() const;
  Llama4Config small() const;
  std::vector<SizeProblem> problems() const;
  SharedSizes shared() const;
  Description description() const;
  static const hugging_face::ModelType& hugging_face_type();
};

}  // namespace rondo

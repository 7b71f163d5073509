// gpt-oss (OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025). Grouped-query attention has
// sinks and biases, a sliding window in every second layer, and YaRN. Every layer has experts:
// clamped SwiGLUs with biases, and a router with a bias. The softmax of the selected logits equals
// the softmax of all logits, divided by the selected ones' sum. Initialization follows
// transformers' GptOssPreTrainedModel.
//
// Configuration: the [model] section of a run with model.name = "gpt_oss". No LibTorch.
#pragma once

#include <cstdint>
#include <vector>

#include "models/parts/description.h"
#include "models/parts/model_spec.h"
#include "models/parts/rotary_sizes.h"
#include "models/parts/size_fields.h"
#include "support/fields.h"

namespace rondo {

struct GptOssConfig : RoutedSizes, YarnSizes {
  static constexpr const char* kName = "gpt_oss";

  // Tokens that a query attends to in layers 0, 2, ..., including itself.
  std::int64_t sliding_window = 128;

  GptOssConfig() {
    top_k = 2, rope_theta = 150000.0;
    rope_scaling_factor = 32.0, rope_original_max_seq_len = 4096;
  }

  // The interface of models/models.h.
  static const Fields& fields();
  FieldValues plain() const;
  GptOssConfig small() const;
  std::vector<SizeProblem> problems() const;
  Description description() const;
  static const hugging_face::ModelType& hugging_face_type();
};

}  // namespace rondo

// gpt-oss (OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025): grouped queries with sinks and biases, a
// window in every second layer, YaRN; experts in every layer, which are clamped SwiGLUs with biases, chosen
// by a router with a bias. The softmax of the chosen logits is that of all logits over its sum. Initialised
// as GptOssPreTrainedModel of transformers does.
//
// Its configuration: the [model] section of a run with model.name = "gpt_oss". No LibTorch.
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

  std::int64_t sliding_window = 128;  // tokens that a query sees in layers 0, 2, ..., itself among them

  GptOssConfig() {
    top_k = 2, rope_theta = 150000.0;
    rope_scaling_factor = 32.0, rope_original_max_seq_len = 4096;
  }

  // What models/models.h asks of a model.
  static const Fields& fields();
  FieldValues plain() const;
  GptOssConfig small() const;
  std::vector<SizeProblem> problems() const;
  Description description() const;
  static const hugging_face::ModelType& hugging_face_type();
};

}  // namespace rondo

// Maps Hugging Face's "model_type": "llama" to llama3.
#include <fmt/format.h>

#include "models/hugging_face/model_type.h"
#include "models/llama3/llama3.h"
#include "support/error.h"

namespace rondo {
namespace {

void refuse_masks(const FieldValues& sizes, nlohmann::json&) {
  for (const char* mask : {"sliding_window", "attention_chunk"})
    if (sizes.contains(mask))
      throw Error(
          ExitCode::checkpoint,
          fmt::format("this model has no Hugging Face form: LlamaForCausalLM of transformers sees all "
                      "tokens before each; train with model.{} = 0",
                      mask));
}

}  // namespace

using hugging_face::ModelType;

const ModelType& Llama3Config::hugging_face_type() {
  constexpr bool kWritten = true;
  static const ModelType type = {
      .name = "llama",
      .architecture = "LlamaForCausalLM",
      .defaults = {{"norm_eps", 1e-6}, {"max_seq_len", std::int64_t{2048}}, {"tie_embeddings", false}},
      .sizes = hugging_face::grouped_query_names({{"intermediate_size", "ffn_hidden_dim"}}),
      .rope_scaling = hugging_face::llama3_rope_scaling(),
      .fixed =
          hugging_face::grouped_query_fixed({{"mlp_bias", false, "a bias in the feed-forward is", kWritten},
                                             {"add_cross_attention", false, "cross attention is"},
                                             {"is_encoder_decoder", false, "an encoder is"}}),
      .read_rest = hugging_face::read_grouped_query_rest,
      .write_rest = refuse_masks};
  return type;
}

}  // namespace rondo

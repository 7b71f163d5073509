// "model_type": "llama" and our llama3: the same model, under other names.
#include "models/hugging_face/model_type.h"
#include "models/llama3/llama3.h"

namespace rondo {
namespace {

using hugging_face::FieldsReader;
using hugging_face::ModelType;
using Json = nlohmann::json;

void read_llama_rest(FieldsReader& reader, FieldValues& sizes) {
  if (!sizes.contains("n_kv_heads") && sizes.contains("n_heads")) sizes["n_kv_heads"] = sizes["n_heads"];
  if (const Json* types = reader.take("layer_types"))
    for (const Json& type : types->is_array() ? *types : Json::array({*types}))
      if (type != "full_attention")
        return reader.fail("layer_types", type, "not in this version; the only value is \"full_attention\"");
}

}  // namespace

const ModelType& Llama3Config::hugging_face_type() {
  constexpr bool kOptional = false, kWritten = true;
  static const hugging_face::RopeScaling scaling = {
      .type = "llama3",
      .sizes = {{"factor", "rope_scaling_factor"},
                {"low_freq_factor", "rope_low_freq_factor"},
                {"high_freq_factor", "rope_high_freq_factor"},
                {"original_max_position_embeddings", "rope_original_max_seq_len"}}};
  static const ModelType type = {
      .name = "llama",
      .architecture = "LlamaForCausalLM",
      .defaults = {{"norm_eps", 1e-6}, {"max_seq_len", std::int64_t{2048}}, {"tie_embeddings", false}},
      .sizes = {{"hidden_size", "dim"},
                {"num_hidden_layers", "n_layers"},
                {"num_attention_heads", "n_heads"},
                {"num_key_value_heads", "n_kv_heads", kOptional},
                {"head_dim", "head_dim", kOptional},
                {"intermediate_size", "ffn_hidden_dim"},
                {"vocab_size", "vocab_size"},
                {"rms_norm_eps", "norm_eps", kOptional},
                {"max_position_embeddings", "max_seq_len", kOptional},
                {"tie_word_embeddings", "tie_embeddings", kOptional}},
      .rope_scaling = scaling,
      .fixed = {{"hidden_act", "silu", "another activation is", kWritten},
                {"attention_bias", false, "a bias in attention is", kWritten},
                {"mlp_bias", false, "a bias in the feed-forward is", kWritten},
                {"attention_dropout", 0.0, "dropout is", kWritten},
                {"sliding_window", nullptr, "a sliding window is"},
                {"use_sliding_window", false, "a sliding window is"},
                {"partial_rotary_factor", 1.0, "a rotation of a part of each head is"},
                {"add_cross_attention", false, "cross attention is"},
                {"is_encoder_decoder", false, "an encoder is"}},
      .read_rest = read_llama_rest};
  return type;
}

}  // namespace rondo

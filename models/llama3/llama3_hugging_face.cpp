#include "models/llama3/llama3_hugging_face.h"

#include <array>

#include "models/hugging_face/size_names.h"
#include "models/llama3/llama3.h"

namespace rondo::hugging_face {
namespace {

using Json = nlohmann::json;

constexpr std::array kSizes = {
    SizeName{"hidden_size", "dim", true},
    SizeName{"num_hidden_layers", "n_layers", true},
    SizeName{"num_attention_heads", "n_heads", true},
    SizeName{"num_key_value_heads", "n_kv_heads", false},
    SizeName{"head_dim", "head_dim", false},
    SizeName{"intermediate_size", "ffn_hidden_dim", true},
    SizeName{"vocab_size", "vocab_size", true},
    SizeName{"rms_norm_eps", "norm_eps", false},
    SizeName{"max_position_embeddings", "max_seq_len", false},
    SizeName{"tie_word_embeddings", "tie_embeddings", false},
};

constexpr std::array kRopeSizes = {
    SizeName{"factor", "rope_scaling_factor", true},
    SizeName{"low_freq_factor", "rope_low_freq_factor", true},
    SizeName{"high_freq_factor", "rope_high_freq_factor", true},
    SizeName{"original_max_position_embeddings", "rope_original_max_seq_len", true},
};

void refuse_features(FieldsReader& reader) {
  reader.take_only("hidden_act", "silu", "another activation is");
  reader.take_only("attention_bias", false, "a bias in attention is");
  reader.take_only("mlp_bias", false, "a bias in the feed-forward is");
  reader.take_only("attention_dropout", 0.0, "dropout is");
  reader.take_only("sliding_window", nullptr, "a sliding window is");
  reader.take_only("use_sliding_window", false, "a sliding window is");
  reader.take_only("partial_rotary_factor", 1.0, "a rotation of a part of each head is");
  reader.take_only("add_cross_attention", false, "cross attention is");
  reader.take_only("is_encoder_decoder", false, "an encoder is");
  if (const Json* types = reader.take("layer_types"))
    for (const Json& type : types->is_array() ? *types : Json::array({*types}))
      if (type != "full_attention")
        return reader.fail("layer_types", type, "not in this version; the only value is \"full_attention\"");
}

}  // namespace

FieldValues read_llama(FieldsReader& reader, std::vector<std::string>& problems) {
  const Fields& fields = Llama3Config::fields();
  const std::size_t before = problems.size();
  FieldValues sizes = {{"norm_eps", 1e-6}, {"max_seq_len", std::int64_t{2048}}, {"tie_embeddings", false}};
  take_sizes(reader, kSizes, fields, sizes);
  if (!sizes.contains("n_kv_heads") && sizes.contains("n_heads")) sizes["n_kv_heads"] = sizes["n_heads"];
  take_rope(reader, {"llama3", kRopeSizes}, fields, sizes, problems);
  refuse_features(reader);
  if (problems.size() == before)
    for (const SizeProblem& problem : from_values<Llama3Config>(sizes).problems())
      problems.push_back(described(problem, kSizes, kRopeSizes, sizes));
  return sizes;
}

Json write_llama(const FieldValues& sizes) {
  const auto c = from_values<Llama3Config>(sizes);
  Json scaling;
  if (c.rope_scaling_factor != 1.0)
    scaling = {{"rope_type", "llama3"},
               {"factor", c.rope_scaling_factor},
               {"low_freq_factor", c.rope_low_freq_factor},
               {"high_freq_factor", c.rope_high_freq_factor},
               {"original_max_position_embeddings", c.rope_original_max_seq_len}};
  return {{"architectures", Json::array({"LlamaForCausalLM"})},
          {"model_type", "llama"},
          {"hidden_size", c.dim},
          {"num_hidden_layers", c.n_layers},
          {"num_attention_heads", c.n_heads},
          {"num_key_value_heads", c.n_kv_heads},
          {"head_dim", c.head_width()},
          {"intermediate_size", c.ffn_width()},
          {"vocab_size", c.vocab_size},
          {"rms_norm_eps", c.norm_eps},
          {"max_position_embeddings", c.max_seq_len},
          {"tie_word_embeddings", c.tie_embeddings},
          {"rope_theta", c.rope_theta},
          {"rope_scaling", scaling},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"mlp_bias", false}};
}

}  // namespace rondo::hugging_face

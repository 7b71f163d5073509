// Maps Hugging Face's "model_type": "gpt_oss" to gpt_oss.
#include "models/gpt_oss/gpt_oss.h"
#include "models/hugging_face/model_type.h"

namespace rondo {
namespace {

using hugging_face::FieldsReader;
using Json = nlohmann::json;

Json layer_types(const FieldValues& sizes) {
  Json types = Json::array();
  for (std::int64_t layer = 0; layer < std::get<std::int64_t>(sizes.at("n_layers")); ++layer)
    types.push_back(layer % 2 == 0 ? "sliding_attention" : "full_attention");
  return types;
}

void read_gpt_oss_yarn(FieldsReader& yarn) {
  const auto truncate = yarn.require("truncate");
  if (truncate && truncate->raw() != false)
    truncate->refuse("a correction range that is truncated is not in this version");
  for (const char* name : {"attention_factor", "mscale", "mscale_all_dim"})
    yarn.take_only(name, nullptr, "another factor on cosines and sines is");
}

void read_gpt_oss_rest(FieldsReader& reader, FieldValues& sizes) {
  // Required: transformers defaults to YaRN with a factor of 32.
  if (!reader.take("rope_parameters")) reader.require("rope_scaling");
  const auto types = reader.take("layer_types");
  if (types && sizes.contains("n_layers") && types->raw() != layer_types(sizes))
    types->refuse("must be a window in layers 0, 2, ... and none in the others");
  reader.take_size("experts_per_token", GptOssConfig::fields(), "top_k", sizes);
  // transformers does not read the first of these fields. The others concern training only.
  for (const char* name : {"initial_context_length", "output_router_logits", "router_aux_loss_coef"})
    reader.take(name);
}

void write_gpt_oss_rest(const FieldValues& sizes, Json& config) {
  hugging_face::refuse_load_bias(sizes, "GptOssForCausalLM");
  config["layer_types"] = layer_types(sizes);
  Json& rope = config["rope_scaling"];
  if (rope.is_null())
    rope["rope_type"] = "default";  // an absent object would mean YaRN with a factor of 32
  else
    rope["truncate"] = false;
}

}  // namespace

const hugging_face::ModelType& GptOssConfig::hugging_face_type() {
  constexpr bool kOptional = false, kWritten = true;
  static const hugging_face::ModelType type = {
      .name = "gpt_oss",
      .architecture = "GptOssForCausalLM",
      .defaults = {{"norm_eps", 1e-5},
                   {"rope_theta", 150000.0},
                   {"max_seq_len", std::int64_t{131072}},
                   {"tie_embeddings", false}},
      .sizes = hugging_face::grouped_query_names({{"intermediate_size", "moe_hidden_dim"},
                                                  {"num_local_experts", "n_experts"},
                                                  {"num_experts_per_tok", "top_k"},
                                                  {"sliding_window", "sliding_window"}}),
      .rope_scaling = {.type = "yarn",
                       .sizes = {{"factor", "rope_scaling_factor"},
                                 {"beta_fast", "rope_beta_fast", kOptional},
                                 {"beta_slow", "rope_beta_slow", kOptional},
                                 {"original_max_position_embeddings", "rope_original_max_seq_len"}},
                       .read_rest = read_gpt_oss_yarn},
      .fixed = {{"hidden_act", "silu", "another activation is", kWritten},
                {"attention_bias", true, "attention without biases is", kWritten},
                {"attention_dropout", 0.0, "dropout is", kWritten},
                {"swiglu_limit", 7.0, "another clamp is", kWritten},
                {"swiglu_alpha", 1.702, "another slope is", kWritten},
                {"partial_rotary_factor", 1.0, "a rotation of a part of each head is"}},
      .read_rest = read_gpt_oss_rest,
      .write_rest = write_gpt_oss_rest};
  return type;
}

}  // namespace rondo

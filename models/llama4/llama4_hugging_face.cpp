// Maps Hugging Face's "model_type": "llama4_text" to llama4, alone or as the text part of the
// multimodal "llama4". Files may list the kinds of layers in addition to or instead of their
// intervals, so reading checks both.
#include "models/hugging_face/model_type.h"
#include "models/llama4/llama4.h"

namespace rondo {
namespace {

using hugging_face::FieldsReader;
using Json = nlohmann::json;

// A file's lists of layers, in addition to or instead of the intervals.
struct LayerLists {
  Json experts = Json::array(), rope = Json::array(), types = Json::array();
};
LayerLists layer_lists(const FieldValues& sizes) {
  const auto c = from_values<Llama4Config>(sizes);
  LayerLists lists;
  for (std::int64_t layer = 0; layer < c.n_layers; ++layer) {
    if (c.has_experts(layer)) lists.experts.push_back(layer);
    lists.rope.push_back(c.has_rope(layer) ? 1 : 0);
    lists.types.push_back(c.has_rope(layer) ? "chunked_attention" : "full_attention");
  }
  return lists;
}

void read_llama4_rest(FieldsReader& reader, FieldValues& sizes) {
  // Required, because transformers' defaults differ.
  reader.require("num_key_value_heads");
  reader.require("head_dim");
  reader.take_size("intermediate_size_mlp", Llama4Config::fields(), "ffn_hidden_dim", sizes);
  reader.take_size("floor_scale", Llama4Config::fields(), "floor_scale", sizes);
  // Some published files have a number for this boolean.
  const auto grows = reader.take("attn_temperature_tuning");
  if (grows && !grows->raw().is_boolean() && !grows->raw().is_number_integer())
    grows->refuse("must be a boolean");
  if (grows && (grows->raw() == false || grows->raw() == 0)) sizes["attn_scale"] = 0.0;
  if (sizes.contains("n_layers")) {
    const LayerLists lists = layer_lists(sizes);
    const auto check = [&](const char* name, const Json& ours, const char* interval) {
      const auto theirs = reader.take(name);
      if (theirs && !theirs->raw().empty() && theirs->raw() != ours)
        theirs->refuse(std::string("must be the layers of ") + interval + " in this version");
    };
    check("moe_layers", lists.experts, "interleave_moe_layer_step");
    check("no_rope_layers", lists.rope, "no_rope_layer_interval");
    check("layer_types", lists.types, "no_rope_layer_interval");
  }
  // These fields concern training only.
  for (const char* name : {"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"})
    reader.take(name);
}

void write_llama4_rest(const FieldValues& sizes, Json& config) {
  hugging_face::refuse_load_bias(sizes, "Llama4ForCausalLM");
  const auto c = from_values<Llama4Config>(sizes);
  config["intermediate_size_mlp"] = c.ffn_hidden_dim;
  config["floor_scale"] = c.floor_scale;
  config["attn_temperature_tuning"] = c.attn_scale > 0;
}

}  // namespace

const hugging_face::ModelType& Llama4Config::hugging_face_type() {
  constexpr bool kOptional = false;
  static const hugging_face::ModelType type = {
      .name = "llama4_text",
      .multimodal = {.name = "llama4",
                     .architecture = "Llama4ForConditionalGeneration",
                     .prefix = "language_model.",
                     .others = {"vision_model.", "multi_modal_projector."},
                     .fields = {"vision_config", "boi_token_index", "eoi_token_index", "image_token_index"}},
      .architecture = "Llama4ForCausalLM",
      .defaults = {{"norm_eps", 1e-5},
                   {"rope_theta", 500000.0},
                   {"max_seq_len", std::int64_t{131072}},
                   {"tie_embeddings", false},
                   {"attn_scale", 0.1},
                   {"floor_scale", std::int64_t{8192}}},
      .sizes =
          hugging_face::grouped_query_names({{"intermediate_size", "moe_hidden_dim"},
                                             {"num_local_experts", "n_experts"},
                                             {"num_experts_per_tok", "top_k"},
                                             {"interleave_moe_layer_step", "interleave_moe_layer_step"},
                                             {"no_rope_layer_interval", "no_rope_layer_interval", kOptional},
                                             {"attention_chunk_size", "attention_chunk"},
                                             {"use_qk_norm", "use_qk_norm"},
                                             {"attn_scale", "attn_scale", kOptional}}),
      .rope_scaling = hugging_face::llama3_rope_scaling(),
      .fixed = hugging_face::grouped_query_fixed(),
      .read_rest = read_llama4_rest,
      .write_rest = write_llama4_rest};
  return type;
}

}  // namespace rondo

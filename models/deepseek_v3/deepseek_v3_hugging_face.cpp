#include "models/deepseek_v3/deepseek_v3_hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "models/deepseek_v3/deepseek_v3.h"
#include "models/hugging_face/size_names.h"
#include "support/error.h"

namespace rondo::hugging_face {
namespace {

using Json = nlohmann::json;

constexpr std::array kSizes = {
    SizeName{"hidden_size", "dim", true},
    SizeName{"num_hidden_layers", "n_layers", true},
    SizeName{"first_k_dense_replace", "n_dense_layers", true},
    SizeName{"num_attention_heads", "n_heads", true},
    SizeName{"vocab_size", "vocab_size", true},
    SizeName{"intermediate_size", "ffn_hidden_dim", true},
    SizeName{"q_lora_rank", "q_lora_rank", false},
    SizeName{"kv_lora_rank", "kv_lora_rank", true},
    SizeName{"qk_nope_head_dim", "qk_nope_head_dim", true},
    SizeName{"qk_rope_head_dim", "qk_rope_head_dim", true},
    SizeName{"v_head_dim", "v_head_dim", true},
    SizeName{"moe_intermediate_size", "moe_hidden_dim", true},
    SizeName{"n_routed_experts", "n_experts", true},
    SizeName{"n_shared_experts", "n_shared_experts", true},
    SizeName{"num_experts_per_tok", "top_k", true},
    SizeName{"n_group", "n_expert_groups", true},
    SizeName{"topk_group", "n_limited_groups", true},
    SizeName{"norm_topk_prob", "route_norm", true},
    SizeName{"routed_scaling_factor", "route_scale", true},
    SizeName{"rms_norm_eps", "norm_eps", false},
    SizeName{"max_position_embeddings", "max_seq_len", false},
};

constexpr std::array kRopeSizes = {
    SizeName{"factor", "rope_scaling_factor", true},
    SizeName{"beta_fast", "rope_beta_fast", false},
    SizeName{"beta_slow", "rope_beta_slow", false},
    SizeName{"mscale_all_dim", "rope_mscale", true},
    SizeName{"original_max_position_embeddings", "rope_original_max_seq_len", true},
};

// The epsilon of the norms of the latents, which their configuration does not name.
constexpr double kLatentNormEps = 1e-6;

// What an object of this type may hold besides its sizes.
void take_yarn(FieldsReader& yarn) {
  // Cosines and sines would be scaled by their ratio.
  const Json* all = yarn.take("mscale_all_dim");
  const Json* mscale = yarn.require("mscale");
  if (all != nullptr && mscale != nullptr && *mscale != *all)
    yarn.fail("mscale", *mscale, "must be mscale_all_dim in this version");
  yarn.take_only("truncate", true, "a correction range that is not truncated is");
  yarn.take_only("attention_factor", nullptr, "a factor on cosines and sines is");
}

void refuse_features(FieldsReader& reader, const FieldValues& sizes) {
  reader.take_only("hidden_act", "silu", "another activation is");
  reader.take_only("attention_bias", false, "a bias in attention is");
  reader.take_only("attention_dropout", 0.0, "dropout is");
  reader.take_only("tie_word_embeddings", false, "a head that is the embedding is");
  reader.take_only("rope_interleave", true, "a rotation of halves is");
  reader.take_only("moe_layer_freq", 1, "a dense layer behind layers with experts is");
  reader.take_only("scoring_func", "sigmoid", "scores that transformers does not compute are");
  reader.take_only("topk_method", "noaux_tc", "another choice of experts is");
  if (const auto heads = sizes.find("n_heads"); heads != sizes.end())
    reader.take_only("num_key_value_heads", std::get<std::int64_t>(heads->second),
                     "another number of keys is");
  // Follow from the others or concern training alone.
  for (const char* name : {"head_dim", "qk_head_dim", "num_local_experts", "num_mtp_layers", "ep_size",
                           "aux_loss_alpha", "seq_aux", "output_router_logits"})
    reader.take(name);
}

}  // namespace

FieldValues read_deepseek(FieldsReader& reader, std::vector<std::string>& problems) {
  const std::size_t before = problems.size();
  FieldValues sizes = {{"norm_eps", 1e-6},
                       {"latent_norm_eps", kLatentNormEps},
                       {"max_seq_len", std::int64_t{4096}},
                       {"q_lora_rank", std::int64_t{0}},
                       {"score_func", std::string("sigmoid")}};
  take_sizes(reader, kSizes, DeepSeekV3Config::fields(), sizes);
  take_rope(reader, {"yarn", kRopeSizes, take_yarn}, DeepSeekV3Config::fields(), sizes, problems);
  refuse_features(reader, sizes);
  if (problems.size() == before)
    for (const SizeProblem& problem : from_values<DeepSeekV3Config>(sizes).problems())
      problems.push_back(described(problem, kSizes, kRopeSizes, sizes));
  return sizes;
}

Json write_deepseek(const FieldValues& sizes) {
  const auto c = from_values<DeepSeekV3Config>(sizes);
  std::vector<std::string> problems;
  if (c.score_func != "sigmoid")
    problems.push_back("model.score_func = \"" + c.score_func + "\", and not \"sigmoid\"");
  if (c.n_shared_experts == 0) problems.push_back("model.n_shared_experts = 0");
  if (c.latent_norm_eps != kLatentNormEps)
    problems.push_back(fmt::format("model.latent_norm_eps = {}, and not 1e-6", c.latent_norm_eps));
  if (!problems.empty())
    throw Error(ExitCode::checkpoint,
                fmt::format("this model has no Hugging Face form: DeepseekV3ForCausalLM of transformers "
                            "computes something else where {}",
                            fmt::join(problems, " or ")));
  Json scaling;
  if (c.rope_scaling_factor != 1.0) scaling = {{"rope_type", "yarn"}, {"mscale", c.rope_mscale}};
  Json config = {{"architectures", Json::array({"DeepseekV3ForCausalLM"})},
                 {"model_type", "deepseek_v3"},
                 {"num_key_value_heads", c.n_heads},
                 {"tie_word_embeddings", false},
                 {"rope_theta", c.rope_theta},
                 {"rope_interleave", true},
                 {"scoring_func", "sigmoid"},
                 {"topk_method", "noaux_tc"},
                 {"moe_layer_freq", 1},
                 {"num_nextn_predict_layers", 0},
                 {"hidden_act", "silu"},
                 {"attention_bias", false},
                 {"attention_dropout", 0.0}};
  const auto put = [&](Json& object, const SizeName& size) {
    const FieldValue value = find_field(DeepSeekV3Config::fields(), size.ours)->get(&c);
    std::visit(
        [&](const auto& v) {
          if constexpr (std::is_constructible_v<Json, decltype(v)> &&
                        !std::is_same_v<std::decay_t<decltype(v)>, std::monostate>)
            object[size.theirs] = v;
        },
        value);
  };
  for (const SizeName& size : kSizes) put(config, size);
  if (c.q_lora_rank == 0) config["q_lora_rank"] = nullptr;
  if (!scaling.is_null())
    for (const SizeName& size : kRopeSizes) put(scaling, size);
  config["rope_scaling"] = scaling;
  return config;
}

}  // namespace rondo::hugging_face

// Maps Hugging Face's "model_type": "deepseek_v3" to deepseek_v3. Some of our sizes have no form in
// transformers; writing them is an error.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/deepseek_v3/deepseek_v3.h"
#include "models/hugging_face/model_type.h"
#include "support/error.h"

namespace rondo {
namespace {

using hugging_face::FieldsReader;
using hugging_face::ModelType;
using Json = nlohmann::json;

// The epsilon of the latents' norms, which config.json does not contain.
constexpr double kLatentNormEps = 1e-6;

void read_yarn(FieldsReader& yarn) {
  // A different value would scale cosines and sines by the ratio of the two.
  const auto all = yarn.take("mscale_all_dim"), mscale = yarn.require("mscale");
  if (all && mscale && mscale->raw() != all->raw()) mscale->refuse("must be mscale_all_dim in this version");
  // transformers treats 0 as absent, and scales cosines and sines.
  if (mscale && mscale->raw() == 0) mscale->refuse("0 is not in this version");
  yarn.take_only("truncate", true, "a correction range that is not truncated is");
  yarn.take_only("attention_factor", nullptr, "a factor on cosines and sines is");
}

void read_deepseek_rest(FieldsReader& reader, FieldValues& sizes) {
  if (const auto heads = sizes.find("n_heads"); heads != sizes.end())
    reader.take_only("num_key_value_heads", std::get<std::int64_t>(heads->second),
                     "another number of keys is");
  // These fields follow from others or concern training only.
  for (const char* name : {"head_dim", "qk_head_dim", "num_local_experts", "num_mtp_layers", "ep_size",
                           "aux_loss_alpha", "seq_aux", "output_router_logits"})
    reader.take(name);
}

// transformers has no such model with softmax scores, without shared experts, or with another
// epsilon inside attention.
void write_rest(const FieldValues& sizes, Json& config) {
  const auto c = from_values<DeepSeekV3Config>(sizes);
  std::vector<std::string> problems;
  if (c.score_func != ScoreFunction::sigmoid)
    problems.push_back(fmt::format("model.score_func = \"{}\", and not \"sigmoid\"", name_of(c.score_func)));
  if (c.n_shared_experts == 0) problems.push_back("model.n_shared_experts = 0");
  if (c.latent_norm_eps != kLatentNormEps)
    problems.push_back(fmt::format("model.latent_norm_eps = {}, and not 1e-6", c.latent_norm_eps));
  if (c.rope_scaling_factor != 1.0 && c.rope_mscale == 0) problems.push_back("model.rope_mscale = 0");
  if (!problems.empty())
    throw Error(ExitCode::checkpoint,
                fmt::format("this model has no Hugging Face form: DeepseekV3ForCausalLM of transformers "
                            "computes something else where {}",
                            fmt::join(problems, " or ")));
  config["num_key_value_heads"] = c.n_heads;
  config["num_nextn_predict_layers"] = 0;
  if (c.q_lora_rank == 0) config["q_lora_rank"] = nullptr;
  if (c.rope_scaling_factor != 1.0) config["rope_scaling"]["mscale"] = c.rope_mscale;
}

}  // namespace

const ModelType& DeepSeekV3Config::hugging_face_type() {
  constexpr bool kOptional = false, kWritten = true;
  static const ModelType type = {
      .name = "deepseek_v3",
      .other_names = {"kimi_k2"},
      .architecture = "DeepseekV3ForCausalLM",
      .defaults = {{"norm_eps", 1e-6},
                   {"latent_norm_eps", kLatentNormEps},
                   {"max_seq_len", std::int64_t{4096}},
                   {"q_lora_rank", std::int64_t{0}},
                   {"score_func", std::string("sigmoid")}},
      .sizes = {{"hidden_size", "dim"},
                {"num_hidden_layers", "n_layers"},
                {"first_k_dense_replace", "n_dense_layers"},
                {"num_attention_heads", "n_heads"},
                {"vocab_size", "vocab_size"},
                {"intermediate_size", "ffn_hidden_dim"},
                {"q_lora_rank", "q_lora_rank", kOptional},
                {"kv_lora_rank", "kv_lora_rank"},
                {"qk_nope_head_dim", "qk_nope_head_dim"},
                {"qk_rope_head_dim", "qk_rope_head_dim"},
                {"v_head_dim", "v_head_dim"},
                {"moe_intermediate_size", "moe_hidden_dim"},
                {"n_routed_experts", "n_experts"},
                {"n_shared_experts", "n_shared_experts"},
                {"num_experts_per_tok", "top_k"},
                {"n_group", "n_expert_groups"},
                {"topk_group", "n_limited_groups"},
                {"norm_topk_prob", "route_norm"},
                {"routed_scaling_factor", "route_scale"},
                {"rms_norm_eps", "norm_eps", kOptional},
                {"max_position_embeddings", "max_seq_len", kOptional}},
      .rope_scaling = {.type = "yarn",
                       .sizes = {{"factor", "rope_scaling_factor"},
                                 {"beta_fast", "rope_beta_fast", kOptional},
                                 {"beta_slow", "rope_beta_slow", kOptional},
                                 {"mscale_all_dim", "rope_mscale"},
                                 {"original_max_position_embeddings", "rope_original_max_seq_len"}},
                       .read_rest = read_yarn},
      .fixed = {{"hidden_act", "silu", "another activation is", kWritten},
                {"attention_bias", false, "a bias in attention is", kWritten},
                {"attention_dropout", 0.0, "dropout is", kWritten},
                {"tie_word_embeddings", false, "a head that is the embedding is", kWritten},
                {"rope_interleave", true, "a rotation of halves is", kWritten},
                {"moe_layer_freq", 1, "a dense layer behind layers with experts is", kWritten},
                {"scoring_func", "sigmoid", "scores that transformers does not compute are", kWritten},
                {"topk_method", "noaux_tc", "another choice of experts is", kWritten}},
      .read_rest = read_deepseek_rest,
      .write_rest = write_rest};
  return type;
}

}  // namespace rondo

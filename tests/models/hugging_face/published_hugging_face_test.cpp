// Configurations as they were published with the weights, and what is written for them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "checkpoint/hugging_face/config.h"
#include "config/load.h"
#include "models/parts/model_spec.h"
#include "tests/checkpoint/safetensors/texts.h"

namespace rondo::hugging_face {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;
using safetensors::error_of;

struct Published {
  const char *model, *flavor;
  Json config;
};

Json qwen3_8b() {
  return Json::parse(R"({
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
    "initializer_range": 0.02, "intermediate_size": 12288, "max_position_embeddings": 40960,
    "max_window_layers": 36, "model_type": "qwen3", "num_attention_heads": 32, "num_hidden_layers": 36,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
    "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})");
}

Json qwen3_30b_a3b() {
  return Json::parse(R"({
    "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 151643, "decoder_sparse_step": 1, "eos_token_id": 151645, "head_dim": 128,
    "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 6144,
    "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
    "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
    "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
    "num_key_value_heads": 4, "output_router_logits": false, "rms_norm_eps": 1e-06, "rope_scaling": null,
    "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "sliding_window": null,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
    "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})");
}

Json olmo2_7b() {
  return Json::parse(R"({
    "architectures": ["Olmo2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "eos_token_id": 100257, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
    "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "olmo2",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "pad_token_id": 100277,
    "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 500000, "tie_word_embeddings": false,
    "torch_dtype": "float32", "transformers_version": "4.47.0.dev0", "use_cache": false,
    "vocab_size": 100352})");
}

// Of its kind are model_type, the rotation and the number of experts.
Json kimi_k2() {
  return Json::parse(R"({
    "architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "aux_loss_alpha": 0.001, "bos_token_id": 163584, "eos_token_id": 163585, "ep_size": 1,
    "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02,
    "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 131072,
    "model_type": "kimi_k2", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 1,
    "n_routed_experts": 384, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 64,
    "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 64,
    "num_nextn_predict_layers": 0, "pretraining_tp": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3",
    "quant_method": "fp8", "weight_block_size": [128, 128]}, "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 50000.0,
    "routed_scaling_factor": 2.827, "scoring_func": "sigmoid", "seq_aux": true, "tie_word_embeddings": false,
    "topk_group": 1, "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "transformers_version": "4.48.3",
    "use_cache": true, "v_head_dim": 128, "vocab_size": 163840})");
}

Json gpt_oss_20b() {
  Json types = Json::array();
  for (int layer = 0; layer < 24; ++layer)
    types.push_back(layer % 2 == 0 ? "sliding_attention" : "full_attention");
  Json config = Json::parse(R"({
    "architectures": ["GptOssForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
    "eos_token_id": 200002, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880,
    "initial_context_length": 4096, "initializer_range": 0.02, "intermediate_size": 2880,
    "max_position_embeddings": 131072, "model_type": "gpt_oss", "num_attention_heads": 64,
    "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32,
    "output_router_logits": false, "pad_token_id": 199999,
    "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
    "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"}, "rms_norm_eps": 1e-05,
    "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
    "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false}, "rope_theta": 150000,
    "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16", "transformers_version": "4.55.0.dev0", "use_cache": true,
    "vocab_size": 201088})");
  config["layer_types"] = types;
  return config;
}

// The text model's part of a file, as in transformers 4.
Json llama4_text(const Json& of_size) {
  Json text = Json::parse(R"({
    "attention_bias": false, "attention_chunk_size": 8192, "attention_dropout": 0.0, "bos_token_id": 200000,
    "eos_token_id": [200001, 200007, 200008], "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120,
    "initializer_range": 0.02, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
    "model_type": "llama4_text", "no_rope_layers": [], "num_attention_heads": 40, "num_experts_per_tok": 1,
    "num_hidden_layers": 48, "num_key_value_heads": 8, "output_router_logits": false, "pad_token_id": 200018,
    "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0,
    "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 202048})");
  text.update(of_size);
  return text;
}

Json llama4_scout() {
  return llama4_text(Json::parse(R"({
    "architectures": ["Llama4ForCausalLM"], "attn_temperature_tuning": 4, "interleave_moe_layer_step": 1,
    "max_position_embeddings": 10485760, "num_local_experts": 16, "rope_scaling": {"factor": 16.0,
    "high_freq_factor": 1.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
    "rope_type": "llama3"}, "use_qk_norm": true})"));
}

Json llama4_maverick() {
  return llama4_text(Json::parse(R"({
    "architectures": ["Llama4ForCausalLM"], "attn_temperature_tuning": true, "interleave_moe_layer_step": 2,
    "max_position_embeddings": 1048576, "num_local_experts": 128, "rope_scaling": null,
    "use_qk_norm": false})"));
}

// As published: the text model in one of texts and images.
Json llama4_whole() {
  Json text = llama4_scout();
  text.erase("architectures");
  return {{"architectures", {"Llama4ForConditionalGeneration"}},
          {"boi_token_index", 200080},
          {"eoi_token_index", 200081},
          {"image_token_index", 200092},
          {"model_type", "llama4"},
          {"text_config", text},
          {"torch_dtype", "bfloat16"},
          {"transformers_version", "4.51.0.dev0"},
          {"vision_config", {{"hidden_size", 1408}, {"model_type", "llama4_vision_model"}}}};
}

std::vector<Published> published() {
  return {{"qwen3", "8B", qwen3_8b()},
          {"qwen3_moe", "30B-A3B", qwen3_30b_a3b()},
          {"olmo2", "7B", olmo2_7b()},
          {"gpt_oss", "20B", gpt_oss_20b()},
          {"llama4", "scout", llama4_scout()},
          {"llama4", "maverick", llama4_maverick()},
          {"deepseek_v3", "kimi_k2_1T", kimi_k2()}};
}

// As it is published for inference: of DeepSeek with YaRN, of Llama 4 with queries that grow.
FieldValues flavor(const std::string& model, const std::string& name) {
  std::vector<std::string> flags = {"--model.name=" + model, "--model.flavor=" + name};
  flags.push_back(model == "deepseek_v3" ? "--training.seq_len=8192" : "--training.seq_len=2048");
  if (model == "llama4") flags.emplace_back("--model.attn_scale=0.1");
  return load_config(flags).model.sizes;
}

FieldValues plain(const char* model, const FieldValues& sizes) {
  return find_model_spec(model)->plain(sizes);
}

std::string problem_with(Json config, const char* field, const Json& value) {
  config[field] = value;
  return error_of([&] { parse_config(config.dump(), "config.json"); });
}

}  // namespace

TEST_CASE("published configurations are those of the flavors, with nothing unknown in them") {
  for (const Published& one : published()) {
    INFO(one.model << " " << one.flavor);
    const ReadConfig read = parse_config(one.config.dump(), "config.json");
    CHECK(read.warnings.empty());
    CHECK(read.config.model == one.model);
    CHECK(plain(one.model, read.config.sizes) == plain(one.model, flavor(one.model, one.flavor)));
  }
}

TEST_CASE("what is written is read back, and says all that the published file says of the model") {
  for (const Published& one : published()) {
    INFO(one.model << " " << one.flavor);
    const FieldValues sizes = flavor(one.model, one.flavor);
    const std::string text = config_json({one.model, sizes, "bfloat16", {}});
    CHECK(plain(one.model, parse_config(text, "config.json").config.sizes) == plain(one.model, sizes));
    CHECK(parse_config(text, "config.json").warnings.empty());
    const Json written = Json::parse(text);
    for (const char* field :
         {"architectures", "hidden_size", "num_hidden_layers", "vocab_size", "rope_theta"})
      CHECK(written[field] == one.config[field]);
  }
}

TEST_CASE("what these models have not here is refused by its field") {
  CHECK_THAT(problem_with(qwen3_8b(), "use_sliding_window", true),
             ContainsSubstring("use_sliding_window = true: a sliding window is not in this version"));
  CHECK_THAT(
      problem_with(qwen3_8b(), "rope_scaling",
                   {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}}),
      ContainsSubstring("rope_scaling.rope_type = \"yarn\": not in this version; default is"));
  CHECK_THAT(problem_with(qwen3_8b(), "attention_bias", true),
             ContainsSubstring("a bias in attention is not in this version"));
  CHECK_THAT(problem_with(qwen3_30b_a3b(), "mlp_only_layers", {0}),
             ContainsSubstring("layers without experts are not in this version; the only value is []"));
  CHECK_THAT(problem_with(qwen3_30b_a3b(), "decoder_sparse_step", 2),
             ContainsSubstring("layers without experts are not in this version"));
  CHECK_THAT(problem_with(qwen3_30b_a3b(), "num_experts", nullptr),
             ContainsSubstring("num_experts is missing"));
  CHECK_THAT(
      problem_with(qwen3_30b_a3b(), "num_experts_per_tok", 129),
      ContainsSubstring("num_experts_per_tok = 129: model.top_k must be at most model.n_experts = 128"));
  CHECK_THAT(problem_with(gpt_oss_20b(), "layer_types", {"full_attention"}),
             ContainsSubstring("must be a window in layers 0, 2, ... and none in the others"));
  CHECK_THAT(problem_with(gpt_oss_20b(), "swiglu_limit", 5.0),
             ContainsSubstring("another clamp is not in this version; the only value is 7.0"));
  CHECK_THAT(problem_with(gpt_oss_20b(), "attention_bias", false),
             ContainsSubstring("attention without biases is not in this version"));
  CHECK_THAT(problem_with(gpt_oss_20b(), "quantization_config", {{"quant_method", "mxfp4"}, {"bits", 3}}),
             ContainsSubstring("quantization_config.bits = 3: not known here"));
  Json yarn = gpt_oss_20b()["rope_scaling"];
  yarn.erase("truncate");
  CHECK_THAT(problem_with(gpt_oss_20b(), "rope_scaling", yarn),
             ContainsSubstring("rope_scaling.truncate is missing"));
  CHECK_THAT(problem_with(olmo2_7b(), "num_key_value_heads", 5),
             ContainsSubstring("num_key_value_heads = 5: model.n_kv_heads must divide model.n_heads"));
}

TEST_CASE("Llama 4's text model is read out of one of texts and images, and nothing else of it") {
  const ReadConfig read = parse_config(llama4_whole().dump(), "config.json");
  CHECK(read.warnings.empty());
  CHECK(plain("llama4", read.config.sizes) == plain("llama4", flavor("llama4", "scout")));
  CHECK(read.config.dtype == "bfloat16");
  CHECK(read.config.tokens.eos.size() == 3);
  CHECK(read.prefix == "language_model.");
  CHECK(read.passed_over == std::vector<std::string>{"vision_model.", "multi_modal_projector."});
  CHECK_THAT(problem_with(llama4_whole(), "text_config", nullptr),
             ContainsSubstring("text_config is missing"));
  CHECK_THAT(problem_with(llama4_whole(), "text_config", 7),
             ContainsSubstring("text_config = 7: must be an object"));
  CHECK_THAT(problem_with(llama4_whole(), "architectures", {"Llama4Model"}),
             ContainsSubstring("the only value is [\"Llama4ForConditionalGeneration\"]"));
  CHECK_THAT(
      problem_with(llama4_whole(), "quantization_config", {{"quant_method", "compressed-tensors"}}),
      ContainsSubstring("quantization_config.quant_method = \"compressed-tensors\": not in this version"));
}

TEST_CASE(
    "Llama 4's queries grow where a file says so or nothing, and not in a model that was trained without") {
  const auto scale_of = [](const Json& config) {
    return parse_config(config.dump(), "config.json").config.sizes.at("attn_scale");
  };
  Json config = llama4_scout();
  config.erase("attn_scale"), config.erase("attn_temperature_tuning");
  CHECK(scale_of(config) == FieldValue(0.1));
  config["attn_temperature_tuning"] = false;
  CHECK(scale_of(config) == FieldValue(0.0));
  const FieldValues trained = load_config({"--model.name=llama4", "--model.flavor=scout"}).model.sizes;
  CHECK(Json::parse(config_json({"llama4", trained, "bfloat16", {}}))["attn_temperature_tuning"] == false);
}

TEST_CASE("gpt-oss says that it has no YaRN, since nothing would mean a factor of 32") {
  FieldValues sizes = flavor("gpt_oss", "20B");
  sizes["rope_scaling_factor"] = 1.0;
  const Json written = Json::parse(config_json({"gpt_oss", sizes, "bfloat16", {}}));
  CHECK(written["rope_scaling"] == Json({{"rope_type", "default"}}));
  CHECK(parse_config(written.dump(), "config.json").config.sizes.at("rope_scaling_factor") ==
        FieldValue(1.0));
  CHECK_THAT(problem_with(gpt_oss_20b(), "rope_scaling", nullptr),
             ContainsSubstring("rope_scaling is missing"));
}

TEST_CASE(
    "DeepSeek's scores without a factor have no Hugging Face form under YaRN, where 0 is taken for none") {
  FieldValues sizes = flavor("deepseek_v3", "kimi_k2_1T");
  sizes["rope_mscale"] = 0.0;
  CHECK_THAT(error_of([&] {
               config_json({"deepseek_v3", sizes, "bfloat16", {}});
             }),
             ContainsSubstring("model.rope_mscale = 0"));
  Json yarn = kimi_k2()["rope_scaling"];
  yarn["mscale"] = yarn["mscale_all_dim"] = 0.0;
  CHECK_THAT(problem_with(kimi_k2(), "rope_scaling", yarn),
             ContainsSubstring("rope_scaling.mscale = 0.0: 0 is not in this version"));
}

TEST_CASE("what Llama 4's files say of layers must be what its intervals say") {
  CHECK_THAT(problem_with(llama4_maverick(), "moe_layers", {0, 1}),
             ContainsSubstring("must be the layers of interleave_moe_layer_step in this version"));
  CHECK_THAT(problem_with(llama4_scout(), "no_rope_layers", {1, 1}),
             ContainsSubstring("must be the layers of no_rope_layer_interval in this version"));
  CHECK_THAT(problem_with(llama4_scout(), "attention_chunk_size", nullptr),
             ContainsSubstring("attention_chunk_size is missing"));
  CHECK_THAT(problem_with(llama4_scout(), "attn_temperature_tuning", "on"),
             ContainsSubstring("attn_temperature_tuning = \"on\": must be a boolean"));
}

TEST_CASE("the number of experts has another name in files of transformers 5") {
  Json config = qwen3_30b_a3b();
  config.erase("num_experts");
  config["num_local_experts"] = 128;
  CHECK(plain("qwen3_moe", parse_config(config.dump(), "config.json").config.sizes) ==
        plain("qwen3_moe", flavor("qwen3_moe", "30B-A3B")));
}

TEST_CASE("two names of one size must have one value") {
  CHECK_THAT(problem_with(qwen3_30b_a3b(), "num_local_experts", 64),
             ContainsSubstring("num_local_experts = 64: must be num_experts = 128; remove the wrong one"));
  CHECK_THAT(
      problem_with(gpt_oss_20b(), "experts_per_token", 2),
      ContainsSubstring("experts_per_token = 2: must be num_experts_per_tok = 4; remove the wrong one"));
}

TEST_CASE("sizes of a rotation that one spelling leaves out have their defaults") {
  Json config = gpt_oss_20b();
  config["rope_parameters"] = config["rope_scaling"];
  config["rope_parameters"].erase("beta_fast");
  CHECK(parse_config(config.dump(), "config.json").config.sizes ==
        parse_config(gpt_oss_20b().dump(), "config.json").config.sizes);
  config["rope_scaling"]["beta_fast"] = 16;
  CHECK_THAT(problem_with(config, "use_cache", true),
             ContainsSubstring("rope_parameters.beta_fast = 32.0: must be rope_scaling.beta_fast = 16.0"));
}

}  // namespace rondo::hugging_face

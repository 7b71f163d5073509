#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "checkpoint/hugging_face/config.h"
#include "checkpoint/hugging_face/folder.h"
#include "config/load.h"
#include "models/deepseek_v3/deepseek_v3.h"
#include "tests/checkpoint/safetensors/texts.h"

namespace rondo::hugging_face {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;
using safetensors::error_of;

// What was published with the weights of DeepSeek-V3.
Json published_671b() {
  return Json::parse(R"({
    "architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "aux_loss_alpha": 0.001, "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1, "first_k_dense_replace": 3,
    "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02, "intermediate_size": 18432,
    "kv_lora_rank": 512, "max_position_embeddings": 163840, "model_type": "deepseek_v3",
    "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
    "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128, "num_experts_per_tok": 8,
    "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "pretraining_tp": 1,
    "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                            "weight_block_size": [128, 128]}, "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                     "original_max_position_embeddings": 4096, "type": "yarn"},
    "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "seq_aux": true,
    "tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc", "torch_dtype": "bfloat16",
    "transformers_version": "4.33.1", "use_cache": true, "v_head_dim": 128, "vocab_size": 129280})");
}

ReadConfig parse(const Json& object) { return parse_config(object.dump(), "config.json"); }

std::string problem_with(const char* field, const Json& value) {
  Json object = published_671b();
  object[field] = value;
  return error_of([&] { parse(object); });
}

std::string problem_with_scaling(const char* field, const Json& value) {
  Json scaling = published_671b()["rope_scaling"];
  scaling[field] = value;
  return problem_with("rope_scaling", scaling);
}

FieldValues flavor(const std::string& name) {
  return load_config({"--model.name=deepseek_v3", "--model.flavor=" + name, "--training.seq_len=8192"})
      .model.sizes;
}

}  // namespace

TEST_CASE("the published configuration of DeepSeek-V3 is that of the flavor 671B") {
  const ReadConfig read = parse(published_671b());
  CHECK(read.quantization == Quantization::fp8);
  CHECK(read.passed_over == std::vector<std::string>{"model.layers.61."});
  CHECK(read.warnings == std::vector<std::string>{"config.json: num_nextn_predict_layers = 1: layers that "
                                                  "predict tokens further ahead are not in this "
                                                  "version, and are passed over"});
  CHECK(read.config.model == "deepseek_v3");
  FieldValues ours = flavor("671B");
  ours["norm_eps"] = 1e-6;  // as published; the flavor has torchtitan's
  const FieldValues here = from_values<DeepSeekV3Config>(ours).plain();
  for (const auto& [key, value] : from_values<DeepSeekV3Config>(read.config.sizes).plain()) {
    INFO(key);
    if (key != "max_seq_len") CHECK(here.at(key) == value);
  }
}

TEST_CASE("a configuration of DeepSeek-V3 that is written is read back") {
  FieldValues sizes = flavor("671B");
  for (const bool scaled : {true, false})
    for (const std::int64_t rank : {0, 24}) {
      sizes["q_lora_rank"] = rank;
      sizes["rope_scaling_factor"] = scaled ? 40.0 : 1.0;
      const ReadConfig read = parse_config(config_json({"deepseek_v3", sizes, "float32", {}}), "config.json");
      CHECK(read.warnings.empty());
      CHECK(from_values<DeepSeekV3Config>(read.config.sizes).plain() ==
            from_values<DeepSeekV3Config>(sizes).plain());
    }
}

TEST_CASE("what DeepSeek-V3 has not here is refused by its field") {
  CHECK_THAT(
      problem_with("scoring_func", "softmax"),
      ContainsSubstring("scoring_func = \"softmax\": scores that transformers does not compute are not "
                        "in this version; the only value is \"sigmoid\""));
  CHECK_THAT(problem_with("num_key_value_heads", 64),
             ContainsSubstring("another number of keys is not in this version; the only value is 128"));
  CHECK_THAT(problem_with("rope_interleave", false), ContainsSubstring("a rotation of halves is not"));
  CHECK_THAT(problem_with("n_group", 7),
             ContainsSubstring("n_group = 7: model.n_expert_groups must divide model.n_experts"));
  CHECK_THAT(problem_with("num_nextn_predict_layers", -1),
             ContainsSubstring("num_nextn_predict_layers = -1: must be a number of layers"));
  CHECK_THAT(problem_with_scaling("mscale", 0.7),
             ContainsSubstring("rope_scaling.mscale = 0.7: must be mscale_all_dim in this version"));
  CHECK_THAT(problem_with_scaling("type", "linear"),
             ContainsSubstring("not in this version; default and yarn are"));
  CHECK_THAT(problem_with_scaling("truncate", false),
             ContainsSubstring("a correction range that is not truncated is not in this version"));
}

TEST_CASE("of quantizations one is read, and any other is refused by its field") {
  const auto refused = [](const char* field, const Json& value, const std::string& message) {
    INFO(field);
    Json quantization = published_671b()["quantization_config"];
    quantization[field] = value;
    CHECK_THAT(problem_with("quantization_config", quantization),
               ContainsSubstring("quantization_config." + message));
  };
  refused("quant_method", "gptq", "quant_method = \"gptq\": not in this version; \"fp8\" and \"mxfp4\" are");
  refused("quant_method", nullptr, "quant_method is missing");
  refused("weight_block_size", {1, 128},
          "weight_block_size = [1,128]: blocks of another size are not in this version; the only value is "
          "[128,128]");
  refused("weight_block_size", nullptr, "weight_block_size is missing");
  refused("fmt", "e5m2",
          "fmt = \"e5m2\": another format of 8 bits is not in this version; the only value is \"e4m3\"");
  refused("expert_dtype", "fp4", "expert_dtype = \"fp4\": another format of experts is not in this version");
  refused("activation_scheme", "static",
          "activation_scheme = \"static\": a fixed scale of activations is not in this version");
  refused("zero_point", true, "zero_point = true: not known here, and may change what the weights are");
  CHECK_THAT(problem_with("quantization_config", "fp8"),
             ContainsSubstring("quantization_config = \"fp8\": must be an object"));

  Json object = published_671b();
  object["quantization_config"]["scale_fmt"] = "ue8m0";
  object["quantization_config"]["modules_to_not_convert"] = nullptr;
  CHECK(parse(object).quantization == Quantization::fp8);
  object["quantization_config"] = nullptr;
  CHECK(parse(object).quantization == Quantization::none);
}

TEST_CASE("a DeepSeek-V3 that transformers has not is not written, and all reasons are said") {
  FieldValues sizes = flavor("16B");
  sizes["n_shared_experts"] = std::int64_t{0};
  sizes["latent_norm_eps"] = 1e-5;
  CHECK(error_of([&] {
          config_json({"deepseek_v3", sizes, "float32", {}});
        }) ==
        "this model has no Hugging Face form: DeepseekV3ForCausalLM of transformers computes something else "
        "where model.score_func = \"softmax\", and not \"sigmoid\" or model.n_shared_experts = 0 or "
        "model.latent_norm_eps = 1e-05, and not 1e-6");
}

TEST_CASE("a name with a star is a stack of tensors, one for each index of the first dimension") {
  const std::vector<Parameter> stack = stacked("experts.*.up", {3, 4, 5});
  REQUIRE(stack.size() == 3);
  CHECK(stack[2].name == "experts.2.up");
  CHECK(stack[2].shape == std::vector<std::int64_t>{4, 5});
  CHECK(stacked("norm", {7}).size() == 1);
}

}  // namespace rondo::hugging_face

// What follows from a description: parameters, their order, how they start, and what a token costs.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <map>

#include "config/load.h"
#include "models/deepseek_v3/deepseek_v3.h"
#include "models/gpt_oss/gpt_oss.h"
#include "models/llama4/llama4.h"
#include "models/olmo2/olmo2.h"
#include "models/parts/decoder.h"
#include "models/parts/description.h"
#include "models/qwen3/qwen3.h"
#include "models/qwen3_moe/qwen3_moe.h"

namespace rondo {
namespace {

std::shared_ptr<const Decoder> flavor(const std::string& model, const std::string& name) {
  const JobConfig job = load_config({"--model.name=" + model, "--model.flavor=" + name});
  return make_decoder(job.model.name, job.model.sizes);
}

std::map<std::string, ParameterRule> by_name(const Decoder& model) {
  std::map<std::string, ParameterRule> rules;
  for (const ParameterRule& rule : model.parameters()) rules[rule.name] = rule;
  return rules;
}

std::size_t place_of(const Decoder& model, const std::string& name) {
  const auto& rules = model.parameters();
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const auto& r) { return r.name == name; });
  REQUIRE(found != rules.end());
  return static_cast<std::size_t>(found - rules.begin());
}

}  // namespace

TEST_CASE("every flavor has as many parameters as transformers' class of its sizes") {
  struct Row {
    const char *model, *flavor;
    std::int64_t parameters;
  };
  for (const Row& row : {Row{"qwen3", "0.6B", 596'049'920},
                         {"qwen3", "1.7B", 1'720'574'976},
                         {"qwen3", "4B", 4'022'468'096},
                         {"qwen3", "8B", 8'190'735'360},
                         {"qwen3", "14B", 14'768'307'200},
                         {"qwen3", "32B", 32'762'123'264},
                         {"qwen3_moe", "30B-A3B", 30'532'122'624},
                         {"qwen3_moe", "235B-A22B", 235'093'634'560},
                         {"gpt_oss", "20B", 20'914'757'184},
                         {"gpt_oss", "120B", 116'829'156'672},
                         {"llama4", "scout", 107'769'861'120},
                         {"llama4", "maverick", 400'711'848'960},
                         {"olmo2", "1B", 1'484'916'736},
                         {"olmo2", "7B", 7'298'617'344},
                         {"olmo2", "13B", 13'716'198'400},
                         {"olmo2", "32B", 32'234'279'936}}) {
    INFO(row.model << " " << row.flavor);
    CHECK(parameter_count(*flavor(row.model, row.flavor)) == row.parameters);
  }
}

TEST_CASE("of experts, those that a token takes count in its cost") {
  // 3.3 B of 30.5 B parameters are active, 22.2 B of 235 B; embeddings are looked up. With one
  // token a sequence each head meets one key and one value.
  const auto cost = [](std::int64_t active, std::int64_t dim, std::int64_t layers, std::int64_t heads) {
    return 6 * (active - 151936 * dim) + 6 * layers * heads * 2 * 128;
  };
  CHECK(flavor("qwen3_moe", "30B-A3B")->flops_per_token(1) == cost(3'353'032'704, 2048, 48, 32));
  CHECK(flavor("qwen3_moe", "235B-A22B")->flops_per_token(1) == cost(22'190'763'520, 4096, 94, 64));
}

TEST_CASE("Qwen3 has one weight for the norms of all heads, and OLMo 2 one for each element of them") {
  Qwen3Config qwen;
  qwen.n_kv_heads = 4, qwen.head_dim = 24;
  auto rules = by_name(*make_decoder(qwen));
  CHECK(rules.at("layers.1.attention.q_norm.weight").sizes == std::vector<std::int64_t>{24});
  CHECK(rules.at("layers.1.attention.k_norm.weight").style == ParallelStyle::replicated);
  Olmo2Config olmo;
  olmo.n_kv_heads = 4;
  rules = by_name(*make_decoder(olmo));
  CHECK(rules.at("layers.1.attention.q_norm.weight").sizes == std::vector<std::int64_t>{256});
  CHECK(rules.at("layers.1.attention.k_norm.weight").sizes == std::vector<std::int64_t>{64});
  CHECK(rules.at("layers.1.attention.k_norm.weight").style == ParallelStyle::colwise);
}

TEST_CASE("norms stand before what they are read before, or behind it, here and at Hugging Face") {
  const auto qwen = make_decoder(Qwen3Config()), olmo = make_decoder(Olmo2Config());
  const std::string layer = "layers.0.";
  CHECK(place_of(*qwen, layer + "attention_norm.weight") < place_of(*qwen, layer + "attention.wq.weight"));
  CHECK(place_of(*olmo, layer + "attention_norm.weight") > place_of(*olmo, layer + "attention.wo.weight"));
  CHECK(place_of(*olmo, layer + "ffn_norm.weight") > place_of(*olmo, layer + "feed_forward.w2.weight"));
  const auto theirs = [&](const auto& model, const char* name) {
    return by_name(*model).at(layer + name).hugging_face_name;
  };
  CHECK(theirs(qwen, "ffn_norm.weight") == "model.layers.0.post_attention_layernorm.weight");
  CHECK(theirs(olmo, "attention_norm.weight") == "model.layers.0.post_attention_layernorm.weight");
  CHECK(theirs(olmo, "ffn_norm.weight") == "model.layers.0.post_feedforward_layernorm.weight");
}

TEST_CASE("matrices start by the rule of their model, norms as ones") {
  const auto check = [](const Decoder& model, Init::Kind kind, double cut) {
    for (const ParameterRule& rule : model.parameters()) {
      INFO(rule.name);
      const bool norm = rule.name.find("norm") != std::string::npos;
      CHECK(rule.init.kind == (norm ? Init::Kind::constant : kind));
      CHECK(rule.init.value == (norm ? 1.0 : 0.02));
      if (!norm) CHECK(rule.init.cut == cut);
    }
  };
  check(*make_decoder(Qwen3Config()), Init::Kind::normal, 0);
  check(*make_decoder(Qwen3MoeConfig()), Init::Kind::normal, 0);
  check(*make_decoder(Olmo2Config()), Init::Kind::truncated_normal, 0.06);
}

TEST_CASE("gpt-oss has sinks and biases in all layers, and a window in every second one from the first on") {
  GptOssConfig config;
  config.sliding_window = 100;
  const auto mask = [&](std::size_t layer) {
    return std::get<GroupedQueryAttention>(config.description().blocks[layer].attention).mask;
  };
  CHECK(mask(0) == AttentionMask{.left = 99});
  CHECK(mask(1) == AttentionMask{});
  CHECK(mask(4) == mask(0));
  const auto rules = by_name(*make_decoder(config));
  CHECK(rules.at("layers.1.attention.sinks").sizes == std::vector<std::int64_t>{16});
  CHECK(rules.at("layers.1.attention.sinks").hugging_face_name == "model.layers.1.self_attn.sinks");
  CHECK(rules.at("layers.1.attention.wo.bias").style == ParallelStyle::replicated);
  CHECK(rules.at("layers.1.attention.wk.bias").style == ParallelStyle::colwise);
  const ParameterRule& bias = rules.at("layers.0.moe.experts.gate_up.bias");
  CHECK(bias.sizes == std::vector<std::int64_t>{8, 512});
  CHECK(bias.init.value == 0);
  CHECK(bias.expert_cut.dim == 1);
  CHECK(rules.at("layers.0.moe.experts.gate_up.weight").expert_cut.blocks == 1);
  CHECK(rules.at("layers.0.moe.experts.down.bias").expert_cut.dim == 0);
  CHECK(bias.bucket == "layers.0.experts");
  CHECK(bias.hugging_face_name == "model.layers.0.mlp.experts.gate_up_proj_bias");
  CHECK(rules.at("layers.0.moe.router.gate.bias").hugging_face_name == "model.layers.0.mlp.router.bias");
}

TEST_CASE(
    "Llama 4 has no rotation and no chunks in every fourth layer, and in Maverick experts in every second") {
  Llama4Config config;
  config.n_layers = 8, config.interleave_moe_layer_step = 2, config.attn_scale = 0.1;
  const std::vector<Block> blocks = config.description().blocks;
  const auto attention = [&](std::size_t layer) {
    return std::get<GroupedQueryAttention>(blocks[layer].attention);
  };
  for (const std::size_t layer : {3, 7}) {
    CHECK(attention(layer).pairs == RotatedPairs::none);
    CHECK(attention(layer).qk_norm == QkNorm::none);
    CHECK(attention(layer).mask == AttentionMask{});
    CHECK(attention(layer).queries_grow);
  }
  CHECK(attention(4).pairs == RotatedPairs::neighbours);
  CHECK(attention(4).qk_norm == QkNorm::rotated);
  CHECK(attention(4).mask == AttentionMask{.chunk = 8192});
  CHECK_FALSE(attention(4).queries_grow);
  CHECK(make_decoder(config)->routers() ==
        std::vector<std::string>{"layers.1.moe", "layers.3.moe", "layers.5.moe", "layers.7.moe"});
  const auto rules = by_name(*make_decoder(config));
  CHECK(rules.at("layers.1.moe.experts.gate_up.weight").sizes == std::vector<std::int64_t>{8, 256, 512});
  CHECK(rules.at("layers.1.moe.experts.gate_up.weight").expert_cut.dim == 2);
  CHECK(rules.at("layers.1.moe.experts.gate_up.weight").expert_cut.blocks == 2);
  CHECK(rules.at("layers.1.moe.shared_experts.w1.weight").hugging_face_name ==
        "model.layers.1.feed_forward.shared_expert.gate_proj.weight");
  CHECK(rules.at("layers.0.feed_forward.w1.weight").sizes == std::vector<std::int64_t>{512, 256});
  CHECK_FALSE(rules.contains("layers.0.attention.q_norm.weight"));
}

TEST_CASE("queries grow where a step of positions begins, by the logarithm of the steps") {
  Llama4Config config;
  config.attn_scale = 0.1, config.floor_scale = 3;
  const Buffer table = make_decoder(config)->buffers(6).at(2);
  const auto factor = [&](std::int64_t position) { return table.value.const_data_ptr<double>()[position]; };
  CHECK(factor(1) == 1.0);
  CHECK(factor(2) == 1.0 + 0.1 * std::log(2.0));
  CHECK(factor(4) == factor(2));
  CHECK(factor(5) == 1.0 + 0.1 * std::log(3.0));
  config.attn_scale = 0;
  CHECK(make_decoder(config)->buffers(6).size() == 2);
}

TEST_CASE("a router has a bias where its load is balanced by one, and is a router all the same") {
  Qwen3MoeConfig config;
  CHECK(make_decoder(config)->routers().size() == 6);
  CHECK(make_decoder(config)->routers()[5] == "layers.5.moe");
  CHECK(make_decoder(config)->expert_biases().empty());
  config.load_balance_coeff = 1e-3;
  CHECK(make_decoder(config)->expert_biases().size() == 6);
  CHECK(make_decoder(DeepSeekV3Config())->routers().size() == 5);
  CHECK(make_decoder(Qwen3Config())->routers().empty());
}

}  // namespace rondo

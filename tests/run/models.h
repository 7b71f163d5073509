// Small models for tests of whole runs, other than Llama 3 (runs.h) and DeepSeek-V3 (deepseek.h).
#pragma once

#include <catch2/generators/catch_generators_range.hpp>
#include <string>
#include <vector>

#include "tests/run/ladder.h"

namespace rondo {

struct SmallModel {
  std::string name, toml;
  bool has_experts() const { return toml.find("moe_hidden_dim") != std::string::npos; }
};

inline SmallModel small_model(const std::string& name, const std::string& more) {
  return {name, "\n[model]\nname = \"" + name + "\"\nflavor = \"debugmodel\"\n" +
                    "dim = 48\nn_layers = 2\nn_heads = 4\nn_kv_heads = 2\nvocab_size = 259\n" + more};
}

inline SmallModel gpt_oss() {
  return small_model("gpt_oss", "head_dim = 16\nmoe_hidden_dim = 32\nsliding_window = 5\n");
}

inline std::vector<SmallModel> small_models() {
  const auto& model = small_model;
  return {model("qwen3", "head_dim = 16\nffn_hidden_dim = 80\n"), model("olmo2", "ffn_hidden_dim = 80\n"),
          model("qwen3_moe", "head_dim = 16\nmoe_hidden_dim = 32\n"), gpt_oss(),
          model("llama4",
                "head_dim = 16\nmoe_hidden_dim = 32\nffn_hidden_dim = 80\nno_rope_layer_interval = 2\n"
                "attention_chunk = 5\nfloor_scale = 3\n")};
}

}  // namespace rondo

// What is said of a key that the run's model does not have.
#include <catch2/catch_test_macros.hpp>

#include "tests/config/config_texts.h"

using rondo::message_of;

TEST_CASE(
    "a size of other models is answered with those that have it, and with the nearest size of this one") {
  const std::string gpt_oss = "[model]\nname = \"gpt_oss\"\n";
  CHECK(message_of(gpt_oss, {"--model.ffn_hidden_dim=44"}) ==
        "command line: --model.ffn_hidden_dim=44: gpt_oss has no model.ffn_hidden_dim; llama3, deepseek_v3, "
        "qwen3, olmo2 and llama4 have it (did you mean model.moe_hidden_dim?)");
  CHECK(message_of(gpt_oss + "ffn_hidden_dim = 44\n") ==
        "x.toml:3:1: model.ffn_hidden_dim = 44: gpt_oss has no model.ffn_hidden_dim; llama3, deepseek_v3, "
        "qwen3, olmo2 and llama4 have it (did you mean model.moe_hidden_dim?)");
  CHECK(message_of(gpt_oss, {"--model.attention-chunk=8"}) ==
        "command line: --model.attention-chunk=8: gpt_oss has no model.attention_chunk; llama3 and llama4 "
        "have it");
  CHECK(message_of(gpt_oss + "multiple_of = 32\n") ==
        "x.toml:3:1: model.multiple_of = 32: gpt_oss has no model.multiple_of; llama3 has it");
  CHECK(message_of("", {"--model.name=deepseek_v3", "--model.n_kv_heads=2"}) ==
        "command line: --model.n_kv_heads=2: deepseek_v3 has no model.n_kv_heads; llama3, qwen3, qwen3_moe, "
        "olmo2, gpt_oss and llama4 have it (did you mean model.n_heads?)");
}

TEST_CASE("no size is suggested that the model lacks") {
  const auto answer = [](const std::string& model, const std::string& flag) {
    return message_of("[model]\nname = \"" + model + "\"\n", {flag + "=44"});
  };
  for (const std::string& flag : std::vector<std::string>{"--model.ffn_hiden_dim", "--modl.ffn_hidden_dim"}) {
    CHECK(answer("llama3", flag) ==
          "command line: " + flag + "=44: unknown key (did you mean model.ffn_hidden_dim?)");
    CHECK(answer("gpt_oss", flag) ==
          "command line: " + flag + "=44: unknown key (did you mean model.moe_hidden_dim?)");
  }
  CHECK(answer("llama3", "--ffn_hidden_dim") ==
        "command line: --ffn_hidden_dim=44: unknown key (did you mean model.ffn_hidden_dim?)");
  CHECK(answer("gpt_oss", "--ffn_hidden_dim") == "command line: --ffn_hidden_dim=44: unknown key");
}

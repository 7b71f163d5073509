// Steps with linear layers in float8, MXFP8 or NVFP4 have the same bits eager, interpreted and
// replayed, for every model and recipe, with context and tensor parallelism. Label `full`.
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/run/layouts.h"

namespace rondo {
namespace {

// Sizes are multiples of 128 on each rank of tp 2, and so are runs of tokens with cp 2.
const Words kCommonSizes = {"--model.dim=256",          "--model.n_layers=2",
                            "--model.n_heads=4",        "--model.vocab_size=288",
                            "--training.seq_len=256",   "--parallelism.context_parallel_load_balancer=none",
                            "--validation.enable=false"};
const Words kHeadSizes = {"--model.n_kv_heads=4", "--model.head_dim=64"};
const Words kFeedForwardSizes = {"--model.ffn_hidden_dim=256"}, kExpertSizes = {"--model.moe_hidden_dim=256"};
const Words kLatentSizes = {"--model.q_lora_rank=128", "--model.kv_lora_rank=128",
                            "--model.qk_nope_head_dim=64", "--model.qk_rope_head_dim=64",
                            "--model.v_head_dim=64"};

struct SizedModel {
  std::string name;
  Words sizes;
};
const std::vector<SizedModel> kSizedModels = {
    {"llama3", kHeadSizes + kFeedForwardSizes},
    {"qwen3", kHeadSizes + kFeedForwardSizes},
    {"deepseek_v3", kLatentSizes + kFeedForwardSizes + kExpertSizes},
    {"gpt_oss", kHeadSizes + kExpertSizes},
    {"llama4", kHeadSizes + kFeedForwardSizes + kExpertSizes}};

Words in_recipe(const std::string& recipe) {
  const bool is_float8 = recipe != "mx" && recipe != "nvfp4";
  const std::string section = "quantize.linear." + (is_float8 ? "float8" : recipe);
  const Words words = {"--model.converters=" + (is_float8 ? "float8" : section),
                       "--" + section + ".emulate=true", "--" + section + ".filter_fqns=output"};
  return is_float8 ? words + Words{"--" + section + ".recipe_name=" + recipe} : words;
}

Words in_layout(int context, int tensor) {
  return {"--parallelism.context_parallel_degree=" + std::to_string(context),
          "--parallelism.tensor_parallel_degree=" + std::to_string(tensor)};
}

TEST_CASE("every model trains in every recipe with context and tensor parallelism, with the same bits") {
  const SizedModel model = GENERATE(from_range(kSizedModels));
  const std::string recipe =
      GENERATE("tensorwise", "rowwise", "rowwise_with_gw_hp", "blockwise", "mx", "nvfp4");
  INFO(model.name << ", " << recipe);
  const Place place("\n[model]\nname = \"" + model.name + "\"\nflavor = \"debugmodel\"\n");
  for (const auto& [context, tensor] : {std::pair(2, 1), {1, 2}, {2, 2}})
    climb({context * tensor, true, false, true, false},
          kCommonSizes + model.sizes + in_recipe(recipe) + in_layout(context, tensor) +
              Words{"--training.global_batch_size=2"},
          place);
}

// Numbers that share a scale are on one rank.
TEST_CASE("layouts of latent attention in MXFP8 and in blocks of 128 equal one rank") {
  const std::string in_mx =
      ",model.converters=quantize.linear.mx,quantize.linear.mx.emulate=true,model.n_layers=1,"
      "model.dim=64,model.n_heads=8,model.ffn_hidden_dim=64,model.kv_lora_rank=32,"
      "model.qk_nope_head_dim=8,model.qk_rope_head_dim=8,model.v_head_dim=8,training.seq_len=128";
  const std::string in_blocks =
      ",model.converters=float8,quantize.linear.float8.emulate=true,model.n_layers=1,"
      "quantize.linear.float8.recipe_name=blockwise,model.dim=128,model.n_heads=2,"
      "model.ffn_hidden_dim=128,model.kv_lora_rank=128,model.qk_nope_head_dim=64,"
      "model.qk_rope_head_dim=64,model.v_head_dim=64,training.seq_len=256,"
      "parallelism.context_parallel_load_balancer=none";
  Words words = {kRondo, "prove", RONDO_SOURCE_DIR "/configs/deepseek_v3_debug.toml"};
  for (const std::string& layout :
       {"cp=2,tp=2" + in_mx, "dp_shard=2,cp=2,compile.memory_policy=full" + in_mx, "cp=2" + in_blocks})
    words.insert(words.end(), {"--layout", layout});
  const ProgramResult proved = run_program(words, 3600 * 1000);
  INFO(proved.output);
  CHECK(proved.exit_code == 0);
}

}  // namespace
}  // namespace rondo

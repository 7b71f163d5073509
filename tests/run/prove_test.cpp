// Tests `rondo prove` on real ranks: layouts of all models equal one rank, and differences
// are named.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

ProgramResult prove(const std::string& model, const Words& words) {
  return rondo(Words{"prove", RONDO_SOURCE_DIR "/configs/" + model + "_debug.toml"} + words);
}
ProgramResult prove_layouts(const std::string& model, const Words& layouts) {
  Words words;
  for (const std::string& layout : layouts) words.insert(words.end(), {"--layout", layout});
  return prove(model, words);
}

void all_hold(const ProgramResult& proved, std::size_t count) {
  INFO(proved.output);
  CHECK(proved.exit_code == 0);
  CHECK_THAT(proved.output, ContainsSubstring(fmt::format("{0} of {0} layouts equal one rank", count)));
}

TEST_CASE("layouts of Llama 3 equal one rank: gradients, norm, and parameters and state after three steps") {
  const std::string once = "parallelism.fsdp_gradient_sync=step",
                    divided = "parallelism.pipeline_parallel_schedule=ZBVZeroBubble",
                    eager = "compile.enable=false,parallelism.fsdp_reshard_after_forward=always";
  const Words layouts = {
      "accumulate=2",
      "dp_shard=3",
      "dp_replicate=2,training.document_attention=true",
      "tp=2,compile.numerics=rounds,training.document_attention=true",
      "dp_shard=2,compile.memory_policy=full,parallelism.fsdp_reshard_after_forward=always",
      "dp_shard=2,tp=2,accumulate=2",
      "dp_replicate=2,dp_shard=2,accumulate=3,compile.enable=false",
      "dp_replicate=2,dp_shard=2,accumulate=2," + once,
      "pp=2,dp_shard=2,accumulate=4," + divided + "," + eager + "," + once,
      "dp_shard=2/tp=3",
      "pp=2,accumulate=4/dp_shard=2",
      "pp=2,dp_replicate=2,accumulate=4," + divided};
  all_hold(prove_layouts("llama3", layouts), layouts.size());
}

TEST_CASE("layouts of DeepSeek-V3 equal one rank, and tokens go to the same experts") {
  const std::string standard = ",parallelism.expert_parallel_comm_backend=standard",
                    exchanged = ",parallelism.expert_parallel_combine=alltoall";
  const Words layouts = {"tp=2,ep=2",
                         "dp_shard=2,ep=2,compile.numerics=rounds" + standard,
                         "dp_shard=2,ep=2,parallelism.expert_capacity_factor=1.1" + exchanged,
                         "dp_shard=2,tp=2,ep=4,accumulate=2,training.document_attention=true",
                         "dp_shard=2,tp=2,ep=2,compile.memory_policy=min_cut" + standard,
                         "dp_replicate=2,dp_shard=2,ep=2,model.sequence_balance_coeff=0.1",
                         "dp_replicate=2,tp=2,model.n_expert_groups=4,model.n_limited_groups=2",
                         "tp=2,ep=2/dp_shard=4,ep=4",
                         "dp_shard=2,ep=2/pp=2,dp_shard=2,ep=2,accumulate=4",
                         "pp=2,dp_shard=2,ep=2,accumulate=4,"
                         "parallelism.pipeline_parallel_schedule=DualPipeV" +
                             standard};
  all_hold(prove_layouts("deepseek_v3", layouts), layouts.size());
}

TEST_CASE(
    "layouts of models with norms of queries and keys equal one rank, also if they divide such a norm") {
  all_hold(prove_layouts("qwen3", {"dp_shard=2,tp=2,compile.numerics=rounds"}), 1);
  all_hold(prove_layouts("olmo2", {"tp=3,compile.memory_policy=full", "dp_shard=2,tp=2,accumulate=2"}), 2);
  all_hold(prove_layouts("qwen3_moe", {"dp_shard=2,tp=2,ep=4"}), 1);
  all_hold(prove_layouts("gpt_oss", {"dp_shard=2,tp=2,ep=2"}), 1);
}

TEST_CASE("layouts whose experts are cut by tensor parallelism equal one rank, and resume other layouts") {
  const std::string standard = ",parallelism.expert_parallel_comm_backend=standard",
                    bounded = ",parallelism.expert_capacity_factor=1.1",
                    exchanged = ",parallelism.expert_parallel_combine=alltoall";
  const Words of_qwen = {"dp_shard=2,tp=2,etp=2,compile.numerics=rounds",
                         "dp_shard=2,tp=2,ep=2,etp=2" + standard + bounded + exchanged,
                         "tp=3,etp=3,accumulate=2"};
  all_hold(prove_layouts("qwen3_moe", of_qwen), of_qwen.size());
  const Words of_deepseek = {"dp_shard=2,tp=2,ep=2,etp=2" + bounded + exchanged,
                             "dp_shard=2,tp=2,ep=2,etp=2,compile.memory_policy=full" + standard,
                             "dp_shard=2,tp=2,ep=2,etp=2/dp_shard=2,ep=2",
                             "dp_shard=2,tp=2,ep=4/dp_shard=2,tp=2,etp=2"};
  all_hold(prove_layouts("deepseek_v3", of_deepseek), of_deepseek.size());
  // Gates and ups of one matrix, in two blocks or alternating; biases, one of them of partial sums.
  const Words of_fused = {
      "dp_shard=4,tp=2,ep=2,etp=2" + bounded,
      "dp_shard=2,tp=2,ep=2,etp=2,model.n_experts=2,model.top_k=1",  // one expert per rank
      "dp_shard=2,tp=2,ep=2,etp=2,compile.memory_policy=full,"
      "compile.full_recompute_all_to_all=true" +
          standard + "/tp=3,etp=3,accumulate=2"};
  for (const char* model : {"gpt_oss", "llama4"}) all_hold(prove_layouts(model, of_fused), of_fused.size());
}

TEST_CASE("layouts of Llama 4 equal one rank, also over documents and with two experts per token") {
  all_hold(prove_layouts("llama4", {"dp_shard=2,tp=2,ep=4,accumulate=2",
                                    "tp=2,training.document_attention=true,compile.memory_policy=full",
                                    "dp_shard=2,ep=2,model.top_k=2,compile.numerics=rounds"}),
           3);
}

TEST_CASE("layouts with context parallelism equal one rank, with every mask, balance and exchange") {
  const std::string heads = ",parallelism.context_parallel_rotate_method=alltoall",
                    documents = ",training.document_attention=true",
                    dealt = documents + ",parallelism.context_parallel_load_balancer=documents";
  const Words of_llama = {"cp=4,accumulate=2" + documents,
                          "dp_replicate=2,cp=2,compile.memory_policy=full,model.sliding_window=11",
                          "dp_shard=2,cp=2" + dealt,
                          "dp_shard=2,cp=2,compile.enable=false,model.attention_chunk=9" + heads,
                          "cp=2,tp=2,compile.numerics=rounds" + heads + documents,
                          "cp=3,parallelism.context_parallel_load_balancer=none/dp_shard=2,tp=2"};
  all_hold(prove_layouts("llama3", of_llama), of_llama.size());
  const Words of_deepseek = {"dp_shard=2,cp=2,ep=4,model.sequence_balance_coeff=0.1" + documents,
                             "cp=2,tp=2,ep=2,etp=2", "cp=2,ep=2" + heads};
  all_hold(prove_layouts("deepseek_v3", of_deepseek), of_deepseek.size());
  const Words gpt_oss_layouts = {"cp=2,tp=2" + documents,
                                 "dp_shard=2,cp=2,ep=2" + heads};  // windows and sinks
  all_hold(prove_layouts("gpt_oss", gpt_oss_layouts), gpt_oss_layouts.size());
}

// A block of 128 is on one rank, so every rank rounds as one rank does. A scale of a whole matrix
// is not.
TEST_CASE("layouts that leave a rank one head, or one hidden element of an expert, equal one rank") {
  const std::string by_heads = "tp=2,cp=2,parallelism.context_parallel_rotate_method=alltoall";
  all_hold(prove_layouts("llama3", {by_heads + ",model.n_heads=4,model.n_kv_heads=2"}), 1);
  all_hold(prove_layouts("gpt_oss", {by_heads + ",model.n_heads=4,model.n_kv_heads=4"}), 1);
  all_hold(prove_layouts("deepseek_v3", {"tp=2,etp=2,model.n_heads=2,model.moe_hidden_dim=2"}), 1);
}

TEST_CASE("layouts with blockwise float8 equal one rank, and layouts with a scale per matrix do not") {
  const auto in_float8 = [](const std::string& recipe) {
    return ",model.n_layers=1,model.n_heads=4,model.n_kv_heads=4,model.converters=float8,"
           "quantize.linear.float8.emulate=true,quantize.linear.float8.recipe_name=" +
           recipe;
  };
  all_hold(prove_layouts("llama3", {"dp_shard=2,tp=2" + in_float8("blockwise") +
                                    ",model.dim=256,model.head_dim=64,model.ffn_hidden_dim=256,"
                                    "training.seq_len=128"}),
           1);
  const ProgramResult other = prove_layouts(
      "llama3", {"dp_shard=2" + in_float8("tensorwise") +
                 ",model.dim=64,model.head_dim=16,model.ffn_hidden_dim=64,training.seq_len=32"});
  INFO(other.output);
  CHECK(other.exit_code == 8);
}

// A row and an expert are on one rank whole, so every rank rounds as one rank does.
TEST_CASE("layouts with experts in float8 equal one rank") {
  const std::string in_float8 =
      ",model.converters=quantize.grouped_mm.float8,quantize.grouped_mm.float8.fqns=experts,"
      "quantize.grouped_mm.float8.emulate=true,model.dim=32,model.moe_hidden_dim=16";
  all_hold(prove_layouts("deepseek_v3",
                         {"dp_shard=2" + in_float8, "dp_shard=2,ep=2" + in_float8,
                          "dp_shard=2,ep=2,parallelism.expert_parallel_comm_backend=standard" + in_float8}),
           3);
}

// A block of 32 is on one rank.
TEST_CASE("layouts with linear layers in MXFP8 equal one rank") {
  all_hold(prove_layouts("llama3", {"dp_shard=2,tp=2,model.converters=quantize.linear.mx,"
                                    "quantize.linear.mx.emulate=true,model.dim=64,model.n_heads=4,"
                                    "model.n_kv_heads=4,model.head_dim=16,model.ffn_hidden_dim=64,"
                                    "training.seq_len=32"}),
           1);
  all_hold(prove_layouts("deepseek_v3",
                         {"cp=2,model.converters=quantize.linear.mx,quantize.linear.mx.emulate=true,"
                          "model.n_layers=1,model.dim=64,model.n_heads=4,model.ffn_hidden_dim=64,"
                          "model.kv_lora_rank=32,model.qk_nope_head_dim=8,model.qk_rope_head_dim=8,"
                          "model.v_head_dim=8,training.seq_len=128"}),
           1);
}

// So are the tokens of an expert, whose gradient has a scale per 32 of them.
TEST_CASE("layouts with experts in MXFP8 equal one rank where experts have the tokens that they have there") {
  const std::string mx =
      ",model.converters=quantize.grouped_mm.mx,quantize.grouped_mm.mx.fqns=experts,"
      "quantize.grouped_mm.mx.emulate=true,model.dim=32,model.moe_hidden_dim=32";
  all_hold(prove_layouts("deepseek_v3", {"dp_shard=2,ep=2" + mx}), 1);
  const ProgramResult divided = prove_layouts("deepseek_v3", {"dp_shard=2" + mx});
  INFO(divided.output);
  CHECK(divided.exit_code == 8);
  CHECK_THAT(divided.output, ContainsSubstring("moe.experts."));
}

// The learning rate of the second rank decays differently.
TEST_CASE("a rank that computes other numbers is detected, and the first difference is named") {
  setenv("LD_PRELOAD", RONDO_BINARY_DIR "/tests/libother_cosine.so", 1);
  setenv("OTHER_COSINE_RANK", "1", 1);
  const ProgramResult proved =
      prove("llama3", {"--layout", "dp_shard=2", "--layout", "tp=2", "--lr_scheduler.decay_type=cosine"});
  unsetenv("LD_PRELOAD");
  unsetenv("OTHER_COSINE_RANK");
  INFO(proved.output);
  CHECK(proved.exit_code == 8);
  CHECK_THAT(proved.output, ContainsSubstring("0 of 2 layouts equal one rank"));
  CHECK_THAT(proved.output, ContainsSubstring("differs: model/layers.0.attention.wk.weight") &&
                                ContainsSubstring("elements differ, from 19"));
}

TEST_CASE("rondo prove refuses layouts that the small model cannot have, and lists those it can") {
  const ProgramResult refused = prove("llama3", {"--layout", "tp=5"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, ContainsSubstring("--layout \"tp=5\": the small model supports tp degrees, and "
                                               "ep degrees if it has experts, of 1, 2, 3, 4, 6"));
  CHECK_THAT(prove("llama3", {"--layout", "zp=2"}).output, ContainsSubstring("must be like dp_replicate=2"));
  CHECK(prove("llama3", {"--layout", "dp_shard=2,ep=2"}).exit_code == 2);
  CHECK_THAT(prove("llama3", {"--keep", RONDO_SOURCE_DIR}).output,
             ContainsSubstring("must be an empty or new folder"));
}

TEST_CASE("a layout that a rule forbids is refused with 3, without any numbers") {
  const ProgramResult run = prove_layouts("llama3", {"dp_shard=2,training.seq_len=0"});
  INFO(run.output);
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.output, ContainsSubstring("refused: ") && ContainsSubstring("training.seq_len") &&
                             ContainsSubstring("0 of 1 layouts equal one rank, 1 is refused by a rule; "));
}

TEST_CASE("layouts whose keys change the model, and routers with gradients of noise, equal one rank") {
  all_hold(prove_layouts("llama3", {"dp_shard=2,model.tie_embeddings=true"}), 1);
  all_hold(prove_layouts("qwen3_moe", {"tp=2,model.top_k=1"}), 1);
}

TEST_CASE("a pipeline whose experts may overflow is proved with room for all rows") {
  all_hold(
      prove("deepseek_v3", {"--world", "2", "--parallelism.pipeline_parallel_degree=2",
                            "--parallelism.expert_capacity_factor=1", "--parallelism.expert_overflow=drop"}),
      1);
}

TEST_CASE("rondo prove --json reports each layout and the result of all") {
  const ProgramResult proved = prove("llama3", {"--layout", "one rank", "--json"});
  REQUIRE(proved.exit_code == 0);
  const nlohmann::json report = nlohmann::json::parse(proved.output);
  CHECK(report["holds"] == true);
  CHECK(report["layouts"][0]["layout"] == "one rank");
  CHECK(report["layouts"][0]["gradients"] == 0);
}

TEST_CASE("rondo prove says what it proves before the first layout runs, also where nobody sees a terminal") {
  const Place place;
  const std::string script =
      "\"$0\" prove \"$1\" --layout dp_shard=2 > \"$2\" & pid=$!\n"
      "until [ -n \"$(cat /proc/$pid/task/$pid/children)\" ]; do sleep 0.01; done\n"
      "kill -KILL $pid; wait $pid; cat \"$2\"";
  const ProgramResult killed = run_program(
      {"/bin/sh", "-c", script, kRondo, RONDO_SOURCE_DIR "/configs/llama3_debug.toml", place / "out"},
      kRunTimeout_ms);
  CHECK_THAT(killed.output,
             ContainsSubstring("small model: n_layers 2") && !ContainsSubstring("equal one rank"));
}

}  // namespace
}  // namespace rondo

// Tests DeepSeek-V3 in whole runs: the same bits eager, interpreted and replayed; resumed state;
// exported and imported weights; a falling loss.
#include "tests/run/deepseek.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>

#include "tests/run/checkpoints.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

TEST_CASE("DeepSeek-V3 has the same bits eager, interpreted and replayed") {
  climb_deepseek({1, false, false, false, false});
  climb_deepseek({1, true, true, true, true});
  climb_deepseek({2, false, true, false, true});
  climb_deepseek({2, true, false, false, false});
}

TEST_CASE("DeepSeek-V3 with softmax scores and one matrix for queries has the same bits in all three") {
  climb_deepseek({2, false, false, true, false},
                 {"--model.score_func=softmax", "--model.q_lora_rank=0", "--model.n_expert_groups=1",
                  "--model.n_limited_groups=1", "--model.route_norm=false", "--model.n_shared_experts=2"});
}

TEST_CASE("replicas of a sharded DeepSeek-V3 have the same bits eager and replayed") {
  const Place place(kTinyDeepSeek);
  const Grid grid{2, 2};
  const Words flags = grid.flags() + Words{"--training.global_batch_size=16"};  // 2 microbatches
  place.play(grid.ranks(), "eager", flags + kEager);
  place.play(grid.ranks(), "replay", flags + kReplay);
  check_equal(place, "eager", "replay", 20);
}

TEST_CASE("memory policies and recomputed layers change no bit of DeepSeek-V3") {
  const Place place(kTinyDeepSeek);
  const Point point{2, true, false, false, false};
  run_at(place, point, "eager run", kEager);
  run_at(place, point, "recomputed", kEager + Words{"--activation_checkpoint.mode=full"});
  check_equal(place, "eager run", "recomputed");
  for (const std::string policy : {"none", "default", "full", "min_cut"}) {
    run_at(place, point, policy, kReplay + Words{"--compile.memory_policy=" + policy});
    check_equal(place, "eager run", policy);
  }
}

TEST_CASE("DeepSeek-V3 resumes from a checkpoint to the same bits, including biases of routers") {
  const Place place(kTinyDeepSeek);
  const Words saving = {"--checkpoint.enable=true", "--checkpoint.interval=5",
                        "--lr_scheduler.total_steps=20"};
  place.play(2, "straight", saving);
  place.play(2, "stopped", saving + Words{"--training.steps=10"});
  place.play(2, "stopped", saving);
  check_equal(place, "straight", "stopped", 20);
  check_same_tensors(place / "straight/checkpoint/step-20", place / "stopped/checkpoint/step-20");
  CHECK_THAT(text_of(place / "straight/checkpoint/step-20/manifest.json"),
             ContainsSubstring("model/layers.1.moe.expert_bias"));
}

TEST_CASE("weights of DeepSeek-V3 return from a Hugging Face folder bit for bit") {
  const Place place(kTinyDeepSeek);
  place.play(2, "run",
             {"--checkpoint.enable=true", "--training.steps=3", "--checkpoint.last_save_in_hf=true"});
  const fs::path saved = place / "run/checkpoint/step-3", exported = place / "run/checkpoint/step-3-hf";
  must_end_well({"convert", exported.string(), (place / "back").string()});
  check_same_tensors(saved, place / "back/step-0", "model/");
  const Words begins = {"--checkpoint.enable=true", "--training.steps=2"};
  place.play(3, "from_checkpoint", begins + Words{"--checkpoint.initial_load_path=" + saved.string()});
  place.play(3, "from_folder",
             begins + Words{"--checkpoint.initial_load_in_hf=true", "--training.tokenizer=bytes",
                            "--checkpoint.initial_load_path=" + exported.string()});
  const ProgramResult compared = place.compare("from_checkpoint", "from_folder");
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
}

TEST_CASE("a DeepSeek-V3 that transformers cannot compute is not exported, with the reason") {
  const Place place(kTinyDeepSeek);
  must_end_well(
      place.train("run", {"--checkpoint.enable=true", "--training.steps=2", "--model.score_func=softmax"}));
  const ProgramResult refused = rondo({"convert", (place / "run").string(), (place / "out").string()});
  CHECK(refused.exit_code == 5);
  CHECK_THAT(refused.output, ContainsSubstring("this model has no Hugging Face form") &&
                                 ContainsSubstring("model.score_func = \"softmax\", and not \"sigmoid\""));
  CHECK_FALSE(fs::exists(place / "out"));
}

TEST_CASE("the loss of DeepSeek-V3 falls, and the load of its experts is reported") {
  const Place place(kTinyDeepSeek);
  place.play(2, "run", {"--training.steps=60", "--debug.hash_every=0"});
  const auto lines = place.metrics("run");
  REQUIRE(lines.size() == 60);
  CHECK(lines[59]["loss"].get<double>() < 0.6 * lines[0]["loss"].get<double>());
  for (const auto& line : lines) {
    CHECK(line["load_imbalance"].get<double>() >= 1.0);
    CHECK(line["load_imbalance"].get<double>() <= 8.0 / 3.0 + 1e-6);  // all tokens to the same three of eight
  }
}

TEST_CASE("the sequence-level balance loss changes gradients equally in any layout, and no reported loss") {
  const Place place(kTinyDeepSeek);
  const Words one_step = {"--training.steps=1", "--lr_scheduler.warmup_steps=0",
                          "--training.global_batch_size=4"};
  const Words balanced = one_step + Words{"--model.sequence_balance_coeff=0.5"};
  const Words of_4 = {"--training.local_batch_size=4"}, of_2 = {"--training.local_batch_size=2"};
  place.play(1, "without", one_step + of_4);
  place.play(1, "1", balanced + of_4);
  place.play(1, "accumulated", balanced + of_2);
  place.play(2, "sharded", balanced + of_2);
  // Two ranks cannot share three heads.
  const Words shared = {"--parallelism.tensor_parallel_degree=2", "--model.n_heads=4"};
  place.play(1, "of 4 heads", balanced + of_4 + Words{"--model.n_heads=4"});
  place.play(2, "shared", balanced + of_4 + shared);
  place.play(2, "shared, eager", balanced + of_4 + shared + kEager);
  const auto first = [&](const char* run, const char* key) {
    return place.metrics(run)[0][key].get<double>();
  };
  CHECK(first("1", "loss") == first("without", "loss"));
  CHECK(std::abs(first("1", "grad_norm") / first("without", "grad_norm") - 1) > 1e-3);
  CHECK(place.compare("shared, eager", "shared").exit_code == 0);
  for (const auto& [a, b] : {std::pair("1", "accumulated"), {"1", "sharded"}, {"of 4 heads", "shared"}}) {
    const ProgramResult compared = place.compare(a, b, {"--tolerance", "1e-6"});
    INFO(b << ":\n" << compared.output);
    CHECK(compared.exit_code == 0);
  }
}

TEST_CASE("recomputed and replayed layers change no bit of a DeepSeek-V3 with the balance loss") {
  const Place place(kTinyDeepSeek);
  const Point point{1, true, true, false, false};
  const Words balanced = {"--model.sequence_balance_coeff=0.01", "--training.steps=3"};
  run_at(place, point, "eager run", balanced + kEager);
  run_at(place, point, "recomputed", balanced + kEager + Words{"--activation_checkpoint.mode=full"});
  run_at(place, point, "replay", balanced + kReplay);
  CHECK(place.compare("eager run", "recomputed").exit_code == 0);
  CHECK(place.compare("eager run", "replay").exit_code == 0);
}

TEST_CASE("1 and 2 ranks compute the same first step of DeepSeek-V3") {
  const Place place(kTinyDeepSeek);
  const Words one_step = {"--training.steps=1", "--lr_scheduler.warmup_steps=0",
                          "--training.global_batch_size=4"};
  place.play(1, "1", one_step + Words{"--training.local_batch_size=4"});
  place.play(2, "2", one_step + Words{"--training.local_batch_size=2"});
  const ProgramResult compared = place.compare("1", "2", {"--tolerance", "1e-6"});
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
}

}  // namespace
}  // namespace rondo

// `rondo plan` as a process: numbers that must be right, what does not fit, mistakes, and that
// nothing is left.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/apps/plan_process.h"
#include "tests/docs/page.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

double number(const json& plan, const char* section, const char* key) { return plan.at(section).at(key); }

// Categories add up to the total, lanes to the step, and speed follows from the step.
void check_sums(const json& plan) {
  std::int64_t bytes = 0;
  for (const auto& [name, row] : plan.at("memory").at("categories_bytes").items())
    bytes += row.get<std::int64_t>();
  CHECK(bytes == plan.at("memory").at("total_bytes").get<std::int64_t>());
  const json& step = plan.at("step");
  const double parts = step.at("matmul_s").get<double>() + step.at("attention_s").get<double>() +
                       step.at("memory_s").get<double>() + step.at("launch_s").get<double>();
  CHECK(parts == Approx(step.at("compute_s").get<double>()));
  CHECK(step.at("step_s").get<double>() ==
        Approx(parts + step.at("slowed_s").get<double>() + step.at("exposed_s").get<double>() +
               step.at("transfers").at("exposed_s").get<double>() + step.at("bubble_s").get<double>()));
  CHECK(step.at("exposed_s").get<double>() <= step.at("communication_s").get<double>() * (1 + 1e-9));
  CHECK(plan.at("most_tokens_per_s_per_rank").get<double>() >=
        plan.at("tokens_per_s_per_rank").get<double>());
  CHECK(plan.at("tokens_per_s").get<double>() ==
        Approx(plan.at("tokens_per_step").get<double>() / step.at("step_s").get<double>()));
  CHECK(plan.at("mfu_percent").get<double>() ==
        Approx(plan.at("tokens_per_s_per_rank").get<double>() * plan.at("flops_per_token").get<double>() /
               989e12 * 100));
}

struct Preset {
  const char* config;
  int world;
  std::int64_t parameters;
  double gflop_per_token;
};

TEST_CASE("the presets have their published parameters and FLOPs, and the plan adds up") {
  const Preset preset = GENERATE(Preset{"llama3_8b.toml", 8, 8'030'261'248, 57.914},
                                 Preset{"llama3_70b.toml", 256, 70'553'706'496, 481.44},
                                 Preset{"llama3_405b.toml", 512, 405'853'388'800, 2625.4});
  const json p = plan_json(preset.config, fmt::format("--world {} --search-plans 0", preset.world));
  CHECK(p.at("parameters").get<std::int64_t>() == preset.parameters);
  CHECK(p.at("flops_per_token").get<double>() == Approx(preset.gflop_per_token * 1e9).epsilon(1e-3));
  CHECK(p.at("world_size") == preset.world);
  CHECK(p.at("data_parallel_shard") == preset.world);
  // fp32 shards, and two moments of each.
  const double shard = 4.0 * static_cast<double>(preset.parameters) / preset.world;
  const json& categories = p.at("memory").at("categories_bytes");
  CHECK(categories.at("parameters").get<double>() == Approx(shard).epsilon(1e-3));
  CHECK(categories.at("optimizer").get<double>() == Approx(2 * shard).epsilon(1e-3));
  check_sums(p);
}

TEST_CASE("replicas add up the gradients of a shard, and hold the shard of fewer ranks") {
  const json p = plan_json("llama3_8b.toml",
                           "--world 16 --model.n_layers=4 --parallelism.data_parallel_replicate_degree=2");
  CHECK(p.at("data_parallel_shard") == 8);
  CHECK(p.at("data_parallel_replicate") == 2);
  const double parameters = p.at("parameters");
  CHECK(p.at("memory").at("categories_bytes").at("parameters").get<double>() ==
        Approx(4.0 * parameters / 8).epsilon(1e-3));
  const json& collectives = p.at("step").at("collectives");
  CHECK(collectives.at("reduce-scatter").at("sent_bytes").get<double>() == Approx(4 * parameters * 7 / 8));
  // Of a shard, over 2 ranks; and two sums of at most two numbers over 16.
  CHECK(collectives.at("all-reduce").at("sent_bytes").get<double>() ==
        Approx(4 * parameters / 8).epsilon(1e-6));
  check_sums(p);
  const ProgramResult text =
      plan("llama3_8b.toml", "--world 4 --model.n_layers=1 --parallelism.data_parallel_replicate_degree=4");
  CHECK_THAT(text.output, ContainsSubstring("dp_replicate 4"));
}

TEST_CASE("every parameter is reduced once, in fp32, and gathered in bf16") {
  const json p = plan_json("llama3_8b.toml", "--world 8 --model.n_layers=4");
  const double parameters = p.at("parameters");
  const json& scatter = p.at("step").at("collectives").at("reduce-scatter");
  CHECK(scatter.at("bytes").get<double>() == Approx(4 * parameters));
  CHECK(scatter.at("sent_bytes").get<double>() == Approx(4 * parameters * 7 / 8));
  const json& gather = p.at("step").at("collectives").at("all-gather");
  CHECK(gather.at("bytes").get<double>() >= 2 * parameters);
  CHECK(gather.at("bytes").get<double>() <= 4 * parameters);
}

TEST_CASE(
    "the graph's arithmetic is the formula's, but that attention counts pairs, and its backward scores "
    "again") {
  const json p = plan_json("llama3_8b.toml", "--world 8 --model.n_layers=4 --device h100");
  const double layers = 4, dim = 4096, length = 8192, embedding = 128256 * dim;
  const double products = 6 * (p.at("parameters").get<double>() - embedding);
  const double whole_rows = layers * dim * length;  // of each product of attention, twice over
  CHECK(p.at("flops_per_token").get<double>() == Approx(products + 12 * whole_rows));
  CHECK(number(p, "step", "flops") / length == Approx(products + (12 + 2) * whole_rows / 2).epsilon(1e-3));
}

TEST_CASE("activations that wait in the host's memory are copied there and back, and the time is counted") {
  const json p = plan_json("llama3_8b.toml",
                           "--world 8 --model.n_layers=4 --device h100 --activation_checkpoint.mode=none "
                           "--compile.memory_policy=sac_and_offload");
  const json& transfers = p.at("step").at("transfers");
  CHECK(transfers.at("count").get<int>() > 0);
  CHECK(transfers.at("count").get<int>() % 2 == 0);
  CHECK(transfers.at("seconds").get<double>() == Approx(transfers.at("bytes").get<double>() / (64e9 * 0.85)));
  check_sums(p);
}

TEST_CASE("linear layers of one input are one product where the plan gets shorter, and memory stays") {
  const auto planned = [](const std::string& layout, const std::string& words) {
    return plan_json("llama3_8b.toml", layout + words +
                                           " --model.n_layers=4 --training.dtype=bfloat16 "
                                           "--activation_checkpoint.mode=none --compile.numerics=rounds");
  };
  const auto figure = [](const json& p, const char* key) { return p.at("step").at(key).get<int>(); };
  const std::string apart = " --compile.disable_passes=merge_linears";
  const auto total = [](const json& p) { return p.at("memory").at("total_bytes").get<std::int64_t>(); };

  // Ranks with an eighth of each weight: small products, small copies.
  const std::string shared = "--world 64 --parallelism.tensor_parallel_degree=8";
  const json merged = planned(shared, ""), old = planned(shared, apart);
  CHECK(merged.at("notes").dump().find("merged 20 linear layers into 8") != std::string::npos);
  // Each of four blocks merges nine products of attention into three, which adds three copies of
  // weights and gradients and one of values, and six of the feed-forward into three, which adds two
  // copies of weights.
  CHECK(figure(old, "ops") - figure(merged, "ops") == 4 * (9 - 3 - 4 + 6 - 3 - 2));
  CHECK(number(merged, "step", "compute_s") < 0.99 * number(old, "step", "compute_s"));
  CHECK(total(merged) <= total(old));

  // Whole weights: a copy takes longer than what one product saves.
  for (const char* const whole : {"--world 1 --training.seq_len=4096", "--world 8 --training.seq_len=4096"}) {
    INFO(whole);
    const json left = planned(whole, "");
    CHECK(left.at("notes").dump().find("left 8 groups of linear layers") != std::string::npos);
    CHECK(total(left) == total(planned(whole, apart)));
  }
}

TEST_CASE("sums of gradients with products cost nothing of their own") {
  const std::string words =
      "--world 1 --training.seq_len=4096 --model.n_layers=4 "
      "--training.dtype=bfloat16 --activation_checkpoint.mode=none --compile.numerics=rounds";
  const json with = plan_json("llama3_8b.toml", words),
             without = plan_json("llama3_8b.toml", words + " --compile.disable_passes=fuse_addmm");
  const json &step = with.at("step"), &old = without.at("step");
  CHECK(old.at("ops").get<int>() - step.at("ops").get<int>() == 4 * 3);
  CHECK(step.at("flops") == old.at("flops"));
  // A sum reads two gradients of [4096, 4096] in bf16 and writes one.
  const double sum_s = 3 * 2 * 4096.0 * 4096 / (4.8e12 * 0.8);
  CHECK(number(without, "step", "memory_s") - number(with, "step", "memory_s") == Approx(4 * 3 * sum_s));
  CHECK(number(with, "step", "matmul_s") == Approx(number(without, "step", "matmul_s")));
  CHECK(with.at("memory").at("total_bytes").get<std::int64_t>() <=
        without.at("memory").at("total_bytes").get<std::int64_t>());
}

TEST_CASE("a residual's sum costs its norm one more tensor each way, and no launch of its own") {
  const std::string words =
      "--world 1 --training.seq_len=4096 --model.n_layers=4 "
      "--training.dtype=bfloat16 --activation_checkpoint.mode=none --compile.numerics=rounds";
  const json with = plan_json("llama3_8b.toml", words),
             without = plan_json("llama3_8b.toml", words + " --compile.disable_passes=fuse_add_rms_norm");
  // Two norms a block, and the last one: the embedding is no sum. The gradients of all but the last
  // have a residual's.
  CHECK(without.at("step").at("ops").get<int>() - with.at("step").at("ops").get<int>() == 2 * 4 * 2);
  // The sum's result is not read again, the gradient of the norm's input neither written nor read.
  const double tensor_s = 2 * 4096.0 * 4096 / (4.8e12 * 0.8);
  CHECK(number(without, "step", "memory_s") - number(with, "step", "memory_s") ==
        Approx((2 * 4 * 1 + 2 * 4 * 2) * tensor_s));
  CHECK(with.at("memory").at("total_bytes").get<std::int64_t>() <=
        without.at("memory").at("total_bytes").get<std::int64_t>());
}

TEST_CASE("rates that a machine was measured at make the plan slower by what they are of") {
  const std::string words = "--world 8 --model.n_layers=4 --device h100";
  const json own = plan_json("llama3_8b.toml", words);
  const json slow = plan_json("llama3_8b.toml", words + " --rates matmul=0.5,attention=0.25");
  CHECK(number(slow, "step", "attention_s") == Approx(4 * number(own, "step", "attention_s")));
  CHECK(number(slow, "step", "matmul_s") == Approx(2 * number(own, "step", "matmul_s")).epsilon(0.01));
  CHECK(number(slow, "step", "memory_s") == Approx(number(own, "step", "memory_s")).epsilon(0.01));
}

TEST_CASE("one rank communicates nothing") {
  const json p = plan_json("llama3_debug.toml", "--world 1 --device cpu");
  CHECK(number(p, "step", "communication_s") == 0);
  CHECK(p.at("step").at("collectives").empty());
  CHECK_THAT(plan("llama3_debug.toml", "--world 1 --device cpu").output,
             ContainsSubstring("collectives of a step: none"));
}

TEST_CASE("accumulation runs the microbatch's graph as often as there are microbatches") {
  const std::string words = "--world 4 --model.n_layers=2 --training.local_batch_size=2 --device h100";
  const json once = plan_json("llama3_8b.toml", words);
  const json thrice = plan_json("llama3_8b.toml", words + " --training.global_batch_size=24");
  CHECK(thrice.at("microbatches") == 3);
  CHECK(thrice.at("tokens_per_step") == 3 * once.at("tokens_per_step").get<std::int64_t>());
  CHECK(thrice.at("step").at("collectives").at("reduce-scatter").at("count") ==
        3 * once.at("step").at("collectives").at("reduce-scatter").at("count").get<std::int64_t>());
  CHECK(number(thrice, "step", "matmul_s") == Approx(3 * number(once, "step", "matmul_s")).epsilon(1e-3));
  check_sums(thrice);
}

TEST_CASE("a run's days, hours and tokens follow from the step, and a number of tokens sets its steps") {
  const std::string words = "--world 8 --model.n_layers=2 --training.steps=1000";
  const json p = plan_json("llama3_8b.toml", words);
  const json& run = p.at("run");
  const double seconds = run.at("seconds");
  CHECK(run.at("steps") == 1000);
  CHECK(run.at("tokens").get<double>() == 1000 * p.at("tokens_per_step").get<double>());
  CHECK(seconds == Approx(1000 * number(p, "step", "step_s")));
  CHECK(run.at("device_hours").get<double>() == Approx(8 * seconds / 3600));
  // 15258.8 steps of 65,536 tokens.
  CHECK(plan_json("llama3_8b.toml", words + " --tokens 1G").at("run").at("steps") == 15259);
}

TEST_CASE("the planned sizes of checkpoints are those on the disk, but for less than a hundredth") {
  const fs::path folder = fs::temp_directory_path() / fmt::format("rondo-plan-run-{}", getpid());
  const std::string words =
      "--training.steps=2 --training.local_batch_size=1 --training.seq_len=16 --validation.enable=false "
      "--lr_scheduler.warmup_steps=1 --checkpoint.enable=true --checkpoint.interval=1 "
      "--checkpoint.export_dtype=bfloat16 --checkpoint.last_save_model_only=true ";
  const ProgramResult ran =
      run_program({"/bin/sh", "-c",
                   fmt::format("cd {} && {}/rondo train --job.config_file=configs/llama3_debug.toml {} "
                               "--job.dump_folder={}",
                               RONDO_SOURCE_DIR, RONDO_BINARY_DIR, words, folder.string())},
                  120'000);
  INFO(ran.output);
  REQUIRE(ran.exit_code == 0);
  const auto bytes_of = [&](const char* step) {
    double bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder / "checkpoint" / step))
      if (entry.is_regular_file()) bytes += static_cast<double>(entry.file_size());
    return bytes;
  };
  const json planned = plan_json("llama3_debug.toml", "--world 1 --device cpu " + words).at("checkpoint");
  CHECK(planned.at("full_bytes").get<double>() == Approx(bytes_of("step-1")).epsilon(0.01));
  CHECK(planned.at("weights_bytes").get<double>() == Approx(bytes_of("step-2-weights")).epsilon(0.01));
  fs::remove_all(folder);
}

TEST_CASE(
    "the text names model, layout, memory, collectives, speed, what limits, and how long planning took") {
  const std::string text = plan("llama3_8b.toml", "--world 8 --model.n_layers 2 --rank=7 --verbose").output;
  for (const char* part : {"parameters, ", "GFLOP a token", "8 ranks of h200", "memory of rank 7",
                           "saved activations", "all-gather", "reduce-scatter", "exposed communication",
                           "tokens/s", " % for dense models on one node", "MFU", "bound by", "planned in "})
    CHECK_THAT(text, ContainsSubstring(part));
}

TEST_CASE("a timeline is written where it is asked for") {
  const fs::path page = fs::temp_directory_path() / fmt::format("rondo-plan-{}.html", getpid());
  CHECK(plan("llama3_8b.toml", "--world 8 --model.n_layers=2 --timeline " + page.string()).exit_code == 0);
  CHECK(fs::file_size(page) > 10'000);
  fs::remove(page);
}

TEST_CASE("the example of docs/plan.md is what the command prints, but for the time that planning takes") {
  const std::string text = plan("llama3_8b.toml", "--world 8 --device h100 --price 2.5").output;
  const std::vector<std::string> lines = block_below("docs/plan.md", "## How to read a plan");
  REQUIRE(lines.size() > 30);
  for (const std::string& line : lines)
    if (!line.starts_with("planned in ")) CHECK_THAT(text, ContainsSubstring(line + "\n"));
}

TEST_CASE("a pipeline's plan says schedule, stages, bubbles and messages, and draws them") {
  const fs::path picture = fs::temp_directory_path() / fmt::format("rondo-plan-{}.svg", getpid());
  const ProgramResult text =
      plan("llama3_8b.toml",
           "--world 8 --model.n_layers=8 --training.local_batch_size=16 --search-plans 0 "
           "--parallelism.pipeline_parallel_degree=4 --write " +
               picture.string());
  for (const char* line : {"pipeline 1F1B: 4 ranks, 1 stage a rank, 16 microbatches", "Et*2|t*3|t*2|tL",
                           "bubbles", "between bodies", "in flight", "message                   64.0 MiB"})
    CHECK_THAT(text.output, ContainsSubstring(line));
  CHECK(fs::remove(picture));
}

struct Mistake {
  const char* words;
  int exit_code;
  const char* message;
};

TEST_CASE("a mistake is one line and its own exit code") {
  const Mistake mistake = GENERATE(
      Mistake{"--world 8 --model.n_layer=2", 3, "unknown key (did you mean model.n_layers?)"},
      Mistake{"--world 8 --model.n_layers=1001", 3,
              "--model.n_layers=1001: must be at least 1 and at most 1000"},
      Mistake{"--world 12 --parallelism.data_parallel_shard_degree=8", 3,
              "replicate 1 * shard 8 * context 1 * tensor 1 = 8 ranks, but the run has 12"},
      Mistake{"--world 8 --training.global_batch_size=12", 3,
              "training.global_batch_size = 12 must be a multiple of"},
      Mistake{"--world 8 --parallelism.pipeline_parallel_degree=8 --model.n_layers=2", 3,
              "8 stages need at least 6 layers"},
      Mistake{"--world 8 --write=x.svg", 2,
              "plan: --write \"x.svg\" needs parallelism.pipeline_parallel_degree or "
              "parallelism.overlapped_microbatches above 1"},
      Mistake{"--world 8 --compile.passes=canonicalise", 3, "canonicalize"},
      Mistake{"", 2, "plan: --world is missing; `rondo plan --help` lists the flags"},
      Mistake{"--world 0", 2, "plan: --world \"0\" must be a whole number from 1 to 1000000"},
      Mistake{"--world eight", 2, "plan: --world \"eight\" must be a whole number from 1 to 1000000"},
      Mistake{"--world 2000000", 2, "plan: --world \"2000000\" must be a whole number from 1 to 1000000"},
      Mistake{"--world 8 --rank 8", 2, "plan: --rank \"8\" must be below --world \"8\""},
      Mistake{"--world 8 --rates matmul=0", 2, "plan: --rates \"matmul=0\" must be a list of NAME=FACTOR"},
      Mistake{"--world 8 --rates matrix=1", 2, "plan: --rates \"matrix=1\" must be a list of NAME=FACTOR"},
      Mistake{"--world 8 --device h2000", 2, "plan: --device \"h2000\" is not known (did you mean h200?)"},
      Mistake{"--world 8 --device a100", 2, "\"a100\" has several kinds: a100-40gb, a100-80gb"},
      Mistake{"--world 8 --devise h200", 2, "plan: unknown flag --devise (did you mean --device?)"},
      Mistake{"--world 8 --json=1", 2, "plan: --json takes no value"},
      Mistake{"--world 8 --model.n_layers=1 --timeline=/no/such/folder/x.html", 6, "/no/such/folder/x.html"},
      Mistake{"--world 8 other.toml", 3, "cannot read \"other.toml\""});
  const ProgramResult result = plan("llama3_8b.toml", mistake.words);
  INFO(mistake.words << ": " << result.output);
  CHECK(result.exit_code == mistake.exit_code);
  CHECK_THAT(result.output, ContainsSubstring(mistake.message));
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
}

TEST_CASE("without a configuration, and with one that is not there, the plan says so") {
  const ProgramResult none = plan("", "--world 8");
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.output, ContainsSubstring("plan: CONFIG is missing"));
  const ProgramResult missing = plan("", "nothing.toml --world 8");
  CHECK(missing.exit_code == 3);
  CHECK_THAT(missing.output, ContainsSubstring("nothing.toml"));
}

TEST_CASE("the help of rondo plan lists its flags and needs nothing else") {
  const ProgramResult help = plan("", "--help");
  CHECK(help.exit_code == 0);
  for (const char* flag : {"--world N", "--device NAME", "--rates LIST", "--tokens N", "--search",
                           "--search-plans N", "--rank R", "--json", "--device-file FILE",
                           "--gpus-per-node N", "--network GBIT", "--power W", "--price USD", "--verbose"})
    CHECK_THAT(help.output, ContainsSubstring(flag));
}

}  // namespace
}  // namespace rondo

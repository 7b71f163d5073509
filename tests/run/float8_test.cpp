// Tests runs whose linear layers, or experts, multiply in emulated float8: the same bits with every
// executor, losses near those of full precision, and the number of products in the log.
#include "tests/occurrences.h"
#include "tests/run/deepseek.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

Words in_float8(const std::string& recipe) {
  return {"--model.converters=float8", "--quantize.linear.float8.emulate=true",
          "--quantize.linear.float8.recipe_name=" + recipe};
}
// All sizes except the vocabulary are multiples of 128, and so are the tokens of a microbatch.
const Words kSizes = {"--model.dim=128", "--model.n_kv_heads=4", "--model.multiple_of=128",
                      "--training.seq_len=64", "--validation.enable=false"};
const Words kShared = {"--parallelism.tensor_parallel_degree=2", "--parallelism.data_parallel_shard_degree=1",
                       "--model.vocab_size=288"};

const Words kMx = {"--model.converters=quantize.linear.mx", "--quantize.linear.mx.emulate=true"},
            kNvfp4 = {"--model.converters=quantize.linear.nvfp4", "--quantize.linear.nvfp4.emulate=true"};

// Runs whose losses are compared.
const Words kBfloat16 = steps(10) + Words{"--training.mixed_precision_param=bfloat16"};

// Losses differ from those of bfloat16, by at most a share of `tolerance`.
void check_near_bfloat16(const Place& place, const char* run, const char* tolerance) {
  const ProgramResult near = place.compare("bfloat16", run, {"--tolerance", tolerance});
  INFO(near.output);
  CHECK(near.exit_code == 0);
  CHECK(place.compare("bfloat16", run, {"--tolerance", "1e-6"}).exit_code == 1);
}

TEST_CASE("steps in float8 have the same bits eager, interpreted and replayed, by every recipe") {
  climb({2, true, false, false, true}, kSizes + in_float8("blockwise"));
  climb({2, true, false, true, false}, kSizes + kMx);
  climb({2, true, true, true, false}, kSizes + kShared + kNvfp4);
  climb({2, true, true, false, false}, kSizes + kShared + in_float8("tensorwise"));
  climb({2, true, false, true, false}, kSizes + kShared + in_float8("rowwise"));
  climb({1, false, true, false, false}, kSizes + in_float8("rowwise_with_gw_hp"));
}

// The gradients of keys and values are summed over the ranks before they are quantized.
TEST_CASE("steps of latent attention in float8 with context parallelism have the same bits, three ways") {
  climb_deepseek({2, true, false, true, false},
                 in_float8("rowwise") + Words{"--parallelism.context_parallel_degree=2", "--model.n_layers=1",
                                              "--model.kv_lora_rank=32", "--model.v_head_dim=16",
                                              "--training.global_batch_size=2", "--validation.enable=false"});
}

TEST_CASE("recomputing layers changes no bit of steps in float8") {
  const Place place;
  const Point point{2, true, false, false, false};
  const Words float8 = kSizes + in_float8("blockwise");
  run_at(place, point, "saved", float8);
  for (const char* policy : {"default", "full", "min_cut"}) {
    run_at(place, point, policy, float8 + Words{std::string("--compile.memory_policy=") + policy});
    check_equal(place, "saved", policy);
  }
  for (const char* mode : {"full", "selective"}) {
    run_at(place, point, mode, float8 + kEager + Words{std::string("--activation_checkpoint.mode=") + mode});
    check_equal(place, "saved", mode);
  }
}

TEST_CASE("losses in float8 are near those of bfloat16, and log and graph show how much is in float8") {
  const Place place;
  place.play(1, "bfloat16", kSizes + kBfloat16);
  for (const auto& [recipe, layers, products] : {std::tuple("tensorwise", "14 of 15", 42U),
                                                 {"blockwise", "14 of 15", 42U},
                                                 {"rowwise_with_gw_hp", "14 of 15", 28U}}) {
    const ProgramResult run = place.play(1, recipe, kSizes + in_float8(recipe) + kBfloat16);
    CHECK_THAT(run.output, ContainsSubstring(std::string("float8: ") + recipe + ", emulated, " + layers +
                                             " linear layers; not output (sizes are not multiples of "));
    CHECK(occurrences(text_of(place / recipe / "graph" / "train_step.ir"), "rondo.float8_mm.default(") ==
          products);
    check_near_bfloat16(place, recipe, "0.1");
  }
}

TEST_CASE("losses in MXFP8 are near those of bfloat16, and log and graph show how much is in it") {
  const Place place;
  const Words bfloat16 = kSizes + kBfloat16;
  place.play(1, "bfloat16", bfloat16);
  const ProgramResult run = place.play(1, "mxfp8", bfloat16 + kMx);
  CHECK_THAT(run.output, ContainsSubstring("float8: mxfp8, emulated, 14 of 15 linear layers; not "
                                           "output (named by quantize.linear.mx.filter_fqns)"));
  CHECK_THAT(text_of(place / "mxfp8" / "events.jsonl"),
             ContainsSubstring(R"("float8_products":{"linear_layers":14})"));
  const std::string graph = text_of(place / "mxfp8" / "graph" / "train_step.ir");
  CHECK(occurrences(graph, "rondo.float8_mm.default(") == 42);
  CHECK(occurrences(graph, ", 1, 32, f8e4m3, true)") > 0);
  check_near_bfloat16(place, "mxfp8", "0.1");
}

TEST_CASE("losses in NVFP4 are near those of bfloat16, and gradients are rounded by draws of the seed") {
  const Place place;
  const Words bfloat16 = kSizes + kBfloat16;
  place.play(1, "bfloat16", bfloat16);
  const ProgramResult run = place.play(1, "nvfp4", bfloat16 + kNvfp4);
  CHECK_THAT(run.output, ContainsSubstring("float8: nvfp4, emulated, 14 of 15 linear layers; not output "
                                           "(named by quantize.linear.nvfp4.filter_fqns)"));
  const std::string graph = text_of(place / "nvfp4" / "graph" / "train_step.ir");
  CHECK(occurrences(graph, "rondo.float8_mm.default(") == 42);
  CHECK(occurrences(graph, ", true, false, none)") == 28);  // a weight and its transpose
  // Activations: three projections of attention share an input, and so do two of the feed-forward.
  CHECK(occurrences(graph, ", false, true, none)") == 8);
  check_near_bfloat16(place, "nvfp4", "0.2");
}

TEST_CASE("selective checkpointing saves every second product of float8, as of other dtypes") {
  const Place place;
  const auto saved_by = [&](const std::string& name, const Words& more) {
    return place
        .play(1, name, kSizes + more + Words{"--compile.memory_policy=eager", "--metrics.verbosity=detailed"})
        .output;
  };
  // Every second one of the six products that the backward reads in each of two layers.
  CHECK_THAT(saved_by("plain", {}), ContainsSubstring("saved: 6 aten.mm.default"));
  CHECK_THAT(saved_by("float8", in_float8("rowwise")), ContainsSubstring("saved: 6 rondo.float8_mm.default"));
}

const Words kExperts = {"--model.converters=quantize.grouped_mm.float8",
                        "--quantize.grouped_mm.float8.fqns=experts",
                        "--quantize.grouped_mm.float8.emulate=true"};
const Words kMxExperts = {"--model.converters=quantize.grouped_mm.mx",
                          "--quantize.grouped_mm.mx.fqns=experts", "--quantize.grouped_mm.mx.emulate=true",
                          "--model.dim=64", "--model.moe_hidden_dim=32"};
const Words kBlocks = {"--quantize.grouped_mm.float8.recipe_name=blockwise", "--model.dim=128",
                       "--model.moe_hidden_dim=128"};

TEST_CASE("steps with experts in float8 have the same bits eager, interpreted and replayed") {
  climb_deepseek({1, true, false, false, false}, kExperts);
  const Words divided = kExperts + Words{"--parallelism.expert_parallel_degree=2", "--model.n_heads=4"};
  climb_deepseek({2, true, true, false, false}, divided);
  climb_deepseek({2, true, false, true, false},
                 divided + Words{"--parallelism.expert_parallel_comm_backend=standard",
                                 "--activation_checkpoint.mode=full"});
  climb_deepseek({2, true, true, false, false}, divided + kBlocks);
  climb_deepseek({2, true, true, false, false}, divided + kMxExperts);
  climb_deepseek({2, true, false, true, false},
                 divided + Words{"--quantize.grouped_mm.float8.recipe_name=rowwise"});
}

TEST_CASE(
    "losses with experts in float8 are near those of bfloat16, and log and graph show what is in float8") {
  const Place place(kTinyDeepSeek);
  place.play(1, "bfloat16", kBfloat16);
  const ProgramResult run = place.play(1, "float8", kBfloat16 + kExperts);
  CHECK_THAT(run.output,
             ContainsSubstring("float8: rowwise_with_gw_hp, emulated, 6 of 6 products of experts"));
  const std::string graph = text_of(place / "float8" / "graph" / "train_step.ir");
  // Outputs and gradients of inputs are float8. w1 and w3 share their quantized input.
  CHECK(occurrences(graph, "rondo.float8_grouped_mm.default(") == 12);
  CHECK(occurrences(graph, "rondo.grouped_mm.default(") == 6);
  CHECK(occurrences(graph, "rondo.quantize_float8_runs.default(") == 10);
  check_near_bfloat16(place, "float8", "0.1");
}

TEST_CASE("with experts in blocks of 128 every product of experts is float8, and losses are near bfloat16") {
  const Place place(kTinyDeepSeek);
  const Words bfloat16 = kBfloat16 + Words{"--model.dim=128", "--model.moe_hidden_dim=128"};
  place.play(1, "bfloat16", bfloat16);
  const ProgramResult run = place.play(1, "float8", bfloat16 + kExperts + kBlocks);
  CHECK_THAT(run.output, ContainsSubstring("float8: blockwise, emulated, 6 of 6 products of experts"));
  CHECK_THAT(text_of(place / "float8" / "events.jsonl"),
             ContainsSubstring(R"("float8_products":{"experts":6})"));
  const std::string graph = text_of(place / "float8" / "graph" / "train_step.ir");
  CHECK(occurrences(graph, "rondo.float8_grouped_mm.default(") == 18);
  CHECK(occurrences(graph, "rondo.grouped_mm.default(") == 0);
  CHECK(occurrences(graph, "rondo.pad_runs.default(") == 10);
  check_near_bfloat16(place, "float8", "0.1");
}

// The checkpoint of a run on a GPU.
TEST_CASE("a run in float8 that was not emulated is evaluated, converted and continued on a CPU") {
  const Place place;
  place.play(1, "run",
             kSizes + in_float8("rowwise") + kSavesAtTheEnd + steps(2) + Words{"--validation.enable=true"});
  const auto file = place / "run" / "config.toml";
  std::string config = text_of(file);
  const std::string emulated = "emulate = true";
  REQUIRE(config.find(emulated) != std::string::npos);
  config.replace(config.find(emulated), emulated.size(), "emulate = false");
  write_text(file, config);
  const std::string run = (place / "run").string();
  CHECK_THAT(must_end_well({"eval", run, "--batches", "1"}).output,
             ContainsSubstring("float8 rowwise, emulated"));
  must_end_well({"generate", run, "--prompt", "the", "--max-new-tokens", "2"});
  must_end_well({"convert", run, (place / "hf").string()});
}

TEST_CASE("a run in bfloat16 is resumed in float8 with a warning") {
  const Place place;
  place.play(1, "run", kSizes + kSavesAtTheEnd + steps(3));
  const ProgramResult resumed =
      place.play(1, "run", kSizes + kSavesAtTheEnd + steps(5) + in_float8("rowwise"));
  CHECK_THAT(resumed.output, ContainsSubstring("model.converters"));
  CHECK(place.metrics("run").size() == 5);
}

}  // namespace
}  // namespace rondo

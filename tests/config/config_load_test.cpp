#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "checkpoint/hugging_face/config.h"
#include "config/derived/device.h"
#include "config/derived/dtypes.h"
#include "config/derived/layout.h"
#include "config/derived/paths.h"
#include "config/derived/schedule_steps.h"
#include "config/dump.h"
#include "models/llama3/llama3.h"
#include "models/parts/model_spec.h"
#include "tests/config/config_texts.h"

using Catch::Matchers::ContainsSubstring;
using rondo::choose_device;
using rondo::from_values;
using rondo::JobConfig;
using rondo::load_config;
using rondo::load_text;
using rondo::message_of;
using rondo::Precision;
using rondo::TargetDevice;

TEST_CASE("default gives way to size file, size file to TOML, TOML to flags, and a flag to a later one") {
  const auto dim = [](const std::string& text, const std::vector<std::string>& flags) {
    return from_values<rondo::Llama3Config>(load_text(text, flags).model.sizes).dim;
  };
  CHECK(dim("", {}) == 256);
  CHECK(dim("", {"--model.flavor=8B"}) == 4096);
  CHECK(dim("[model]\nflavor = \"8B\"\ndim = 2048\n", {}) == 2048);
  CHECK(dim("[model]\ndim = 2048\nflavor = \"8B\"\n", {"--model.dim=1024"}) == 1024);
  CHECK(dim("[model]\ndim = 2048\n", {"--model.dim=1024", "--model.dim=512"}) == 512);
  CHECK(dim("[model]\ndim = 2048\n", {"--model.flavor=8B"}) == 2048);
}

TEST_CASE("model.hf_config gives the model and its sizes, which keys override and the resolved file holds") {
  const JobConfig wanted =
      load_text("[model]\nname = \"deepseek_v3\"\nscore_func = \"sigmoid\"\nn_layers = 5\n");
  const rondo::TomlFile file(
      rondo::hugging_face::config_json({wanted.model.name, wanted.model.sizes, "bfloat16", {}}));
  const std::string flag = "--model.hf_config=" + file.path();
  const JobConfig taken = load_text("", {flag});
  CHECK(taken.model.name == "deepseek_v3");
  const auto plain = rondo::find_model_spec("deepseek_v3")->plain;
  CHECK(plain(taken.model.sizes) == plain(wanted.model.sizes));
  CHECK(taken.model.hf_config.empty());
  CHECK(load_text(rondo::to_toml(taken)).model.sizes == taken.model.sizes);
  CHECK(load_text("[model]\nflavor = \"8B\"\n", {flag}).model.sizes == taken.model.sizes);
  CHECK(load_text("[model]\nn_layers = 3\n", {flag}).model.sizes.at("n_layers") ==
        rondo::FieldValue(std::int64_t{3}));

  const std::string key = "[model]\nhf_config = \"" + file.path() + "\"\n";
  CHECK_THAT(message_of(key + "flavor = \"16B\"\n"),
             ContainsSubstring("has no effect together with model.hf_config"));
  CHECK_THAT(message_of(key + "name = \"llama3\"\n"), ContainsSubstring("is of the model deepseek_v3"));
  CHECK_THAT(message_of(rondo::to_toml(load_text("")), {flag, "--model.name=deepseek_v3"}),
             ContainsSubstring("deepseek_v3 has no model.n_kv_heads; llama3, qwen3, "));
  CHECK_THAT(message_of("", {"--model.hf_config=/nowhere"}), ContainsSubstring("/nowhere"));
  CHECK_THAT(message_of("", {"--model.hf_config=Qwen/Qwen3-0.6B"}),
             ContainsSubstring("nothing is fetched from the Hugging Face Hub: `hf download Qwen/Qwen3-0.6B"));
  const rondo::TomlFile broken("{\"model_type\": \"gpt2\"}");
  CHECK_THAT(message_of("", {"--model.hf_config=" + broken.path()}), ContainsSubstring("model_type"));
}

TEST_CASE("a model is named by the flavor that has its sizes, and by no flavor where none has") {
  const auto flavor = [](const std::string& text, const std::vector<std::string>& flags = {}) {
    return load_text(text, flags).model.flavor;
  };
  CHECK(flavor("") == "debugmodel");
  CHECK(flavor("[model]\ndim = 2048\n").empty());
  CHECK(flavor("[model]\nflavor = \"8B\"\nvocab_size = 1000\n") == "8B");  // the user's word
  const JobConfig published = load_config({"--model.name=qwen3", "--model.flavor=0.6B"});
  rondo::hugging_face::ModelConfig config{"qwen3", published.model.sizes, "bfloat16", {}};
  const rondo::TomlFile file(rondo::hugging_face::config_json(config));
  CHECK(flavor("", {"--model.hf_config=" + file.path()}) == "0.6B");
  CHECK(flavor("", {"--model.hf_config=" + file.path(), "--model.n_layers=3"}).empty());

  const JobConfig own = load_text("[model]\ndim = 2048\n");
  CHECK(load_text(rondo::to_toml(own)).model.sizes == own.model.sizes);
  CHECK(flavor(rondo::to_toml(own)).empty());
  // Files of earlier versions name the default there.
  std::string resolved = rondo::to_toml(own);
  resolved.replace(resolved.find("flavor = \"\""), 11, "flavor = \"debugmodel\"");
  CHECK(flavor(resolved).empty());
}

TEST_CASE(
    "DeepSeek-V3 scales its rotations for rows beyond the original length alone, unless it is told to") {
  const auto factor = [](const std::string& text, const std::vector<std::string>& flags = {}) {
    return std::get<double>(load_text("[model]\nname = \"deepseek_v3\"\nflavor = \"671B\"\n" + text, flags)
                                .model.sizes.at("rope_scaling_factor"));
  };
  CHECK(factor("[training]\nseq_len = 4096\n") == 1);
  CHECK(factor("[training]\nseq_len = 4097\n") == 40);
  CHECK(factor("[training]\nseq_len = 4096\n[validation]\nenable = true\nseq_len = 8192\n") == 40);
  CHECK(factor("[training]\nseq_len = 4096\n", {"--model.rope_scaling_factor=40"}) == 40);
  CHECK(factor("rope_original_max_seq_len = 2048\n[training]\nseq_len = 4096\n") == 40);
  CHECK(std::get<double>(load_text("[training]\nseq_len = 128\n").model.sizes.at("rope_scaling_factor")) ==
        8);
  const JobConfig resolved = load_text("[model]\nname = \"deepseek_v3\"\n");
  CHECK(resolved.origins.at("model.rope_scaling_factor") == "rows of at most 2048 tokens");
  CHECK(load_text(rondo::to_toml(resolved), {"--training.seq_len=8192"}).model.sizes == resolved.model.sizes);

  // A folder says what its model is, whatever the rows.
  JobConfig published = load_text("[model]\nname = \"deepseek_v3\"\nscore_func = \"sigmoid\"\n",
                                  {"--model.rope_scaling_factor=40"});
  const rondo::TomlFile file(
      rondo::hugging_face::config_json({published.model.name, published.model.sizes, "bfloat16", {}}));
  CHECK(std::get<double>(
            load_text("", {"--model.hf_config=" + file.path()}).model.sizes.at("rope_scaling_factor")) == 40);
}

TEST_CASE("bf16 is rounded stochastically unless a key says otherwise, which has no effect without bf16") {
  const std::string bf16 = "--training.dtype=bfloat16", nearest = "--optimizer.bf16_rounding=nearest";
  CHECK(rondo::rounds_stochastically(load_text("", {bf16})));
  CHECK(rondo::rounds_stochastically(load_text("", {"--optimizer.implementation=fused_opt_states_bf16"})));
  CHECK_FALSE(rondo::rounds_stochastically(load_text("")));
  const JobConfig config = load_text("", {bf16, nearest});
  CHECK_FALSE(rondo::rounds_stochastically(config));
  CHECK(config.notes.empty());
  REQUIRE(load_text("", {nearest}).notes.size() == 1);
  CHECK_THAT(load_text("", {nearest}).notes[0],
             ContainsSubstring("without effect: optimizer.bf16_rounding (neither parameters nor moments"));
  CHECK(load_text("[optimizer]\nbf16_rounding = \"nearest\"\n").notes.empty());
}

TEST_CASE(
    "training.dtype = float64 is the dtype of all numbers, says so of keys without effect, and is for the "
    "CPU") {
  const JobConfig config =
      load_text("", {"--training.dtype=float64", "--training.mixed_precision_reduce=bfloat16"});
  CHECK(rondo::compute_dtype(config) == Precision::float64);
  CHECK(rondo::reduce_dtype(config) == Precision::float64);
  REQUIRE(config.notes.size() == 1);
  CHECK_THAT(config.notes[0], ContainsSubstring("without effect: training.mixed_precision_reduce"));
  CHECK(rondo::compute_dtype(load_text("")) == Precision::bfloat16);
  CHECK_THAT(message_of("", {"--training.dtype=float64", "--job.device=cuda"}),
             ContainsSubstring("--training.dtype=float64: float64 is for the CPU only in this version"));
}

TEST_CASE("weights of a Hugging Face folder come with its tokenizer, unless a key names another") {
  const std::vector<std::string> weights = {"--checkpoint.initial_load_in_hf=true",
                                            "--checkpoint.initial_load_path=hf"};
  const auto tokenizer = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags = weights;
    flags.insert(flags.end(), more.begin(), more.end());
    return rondo::tokenizer_name(load_text("", flags));
  };
  CHECK(tokenizer({"--checkpoint.enable=true"}) == "hf");
  CHECK(tokenizer({"--checkpoint.enable=true", "--model.hf_assets_path=other"}) == "other");
  CHECK(tokenizer({"--checkpoint.enable=true", "--training.tokenizer=bytes"}) == "bytes");
  CHECK(tokenizer({"--checkpoint.enable=false"}) == "bytes");
}

TEST_CASE("flags take their value after an equals sign or a space, in kebab or snake case") {
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--training.local_batch_size=3"},
                                             {"--training.local_batch_size", "3"},
                                             {"--training.local-batch-size=3"},
                                             {"--training.local-batch-size", "+3"}})
    CHECK(load_config(flags).training.local_batch_size == 3);
  CHECK(load_config({"--training.global_batch_size", "-1"}).training.global_batch_size == -1);
  CHECK(load_config({"--optimizer.lr=1"}).optimizer.lr == 1.0);
  CHECK(load_config({"--optimizer.lr=1e-3"}).optimizer.lr == 1e-3);
  CHECK(load_config({"--job.description=a = b, \"c\""}).job.description == "a = b, \"c\"");
}

TEST_CASE("booleans are switched by name, by value and by negation") {
  CHECK(load_config({"--debug.deterministic"}).debug.deterministic);
  CHECK(load_config({"--debug.deterministic", "true"}).debug.deterministic);
  CHECK(load_config({"--debug.deterministic=True"}).debug.deterministic);
  CHECK(load_config({"--debug.deterministic", "--training.steps=300"}).training.steps == 300);
  CHECK_FALSE(load_config({"--compile.enable=false"}).compile.enable);
  CHECK_FALSE(load_config({"--compile.enable", "false"}).compile.enable);
  CHECK_FALSE(load_config({"--compile.no-enable"}).compile.enable);
  CHECK_FALSE(load_config({"--no-compile.enable"}).compile.enable);
  CHECK(load_config({"--compile.no-enable=false"}).compile.enable);
}

TEST_CASE("lists are written with commas or as TOML") {
  using Texts = std::vector<std::string>;
  CHECK(load_config({"--training.datasets=a=1,b=2"}).training.datasets == Texts{"a=1", "b=2"});
  CHECK(load_config({"--training.datasets=[\"a=1,2\"]"}).training.datasets == Texts{"a=1,2"});
  CHECK(load_config({"--compile.passes="}).compile.passes.empty());
  CHECK(load_config({"--compile.passes=[]"}).compile.passes.empty());
}

TEST_CASE("an integer is accepted where a number is wanted, and None unsets what may be unset") {
  CHECK(load_text("[optimizer]\nlr = 1\n").optimizer.lr == 1.0);
  CHECK(load_text("[lr_scheduler]\ntotal_steps = 300\n").lr_scheduler.total_steps == 300);
  CHECK_FALSE(load_text("[lr_scheduler]\ntotal_steps = 300\n", {"--lr_scheduler.total_steps=None"})
                  .lr_scheduler.total_steps.has_value());
}

TEST_CASE("every preset is valid and has the learning rate, batch and length of its size") {
  struct Preset {
    std::string name, flavor;
    double lr;
    std::int64_t warmup, batch, seq_len, steps;
  };
  const std::vector<Preset> presets = {{"llama3_debug", "debugmodel", 8e-4, 2, 4, 256, 200},
                                       {"llama3_1b", "1B", 3e-4, 200, 4, 8192, 1000},
                                       {"llama3_3b", "3B", 3e-4, 200, 2, 8192, 1000},
                                       {"llama3_8b", "8B", 3e-4, 200, 1, 8192, 1000},
                                       {"llama3_70b", "70B", 1.5e-4, 200, 8, 8192, 1000},
                                       {"llama3_405b", "405B", 8e-5, 600, 2, 8192, 3000},
                                       {"deepseek_v3_debug", "debugmodel", 8e-4, 2, 2, 128, 100},
                                       {"deepseek_v3_16b", "16B", 2.2e-4, 200, 4, 4096, 1000},
                                       {"deepseek_v3_236b", "236B", 2.4e-4, 2000, 2, 4096, 10000},
                                       {"deepseek_v3_671b", "671B", 2.2e-4, 2000, 4, 4096, 10000},
                                       {"kimi_k2_1t", "kimi_k2_1T", 2e-4, 200, 4, 4096, 1000},
                                       {"olmo2_13b", "13B", 9e-4, 2000, 2, 4096, 10000},
                                       {"qwen3_0_6b", "0.6B", 3e-4, 200, 4, 4096, 1000},
                                       {"qwen3_moe_debug", "debugmodel", 8e-4, 2, 2, 128, 200},
                                       {"qwen3_235b_a22b", "235B-A22B", 2e-4, 200, 2, 4096, 1000},
                                       {"llama4_maverick", "maverick", 3e-4, 200, 2, 8192, 1000}};
  for (const Preset& preset : presets) {
    INFO(preset.name);
    const JobConfig config =
        load_config({"--job.config_file", RONDO_SOURCE_DIR "/configs/" + preset.name + ".toml"});
    CHECK(config.model.flavor == preset.flavor);
    CHECK(config.optimizer.lr == preset.lr);
    CHECK(config.lr_scheduler.warmup_steps == preset.warmup);
    CHECK(config.training.local_batch_size == preset.batch);
    CHECK(config.training.seq_len == preset.seq_len);
    CHECK(config.training.steps == preset.steps);
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(RONDO_SOURCE_DIR "/configs")) {
    load_config({"--job.config_file", entry.path().string()});
    ++files;
  }
  CHECK(files >= presets.size());
}

TEST_CASE(
    "ranks compute on GPUs where the program and the machine have them, and never elsewhere than was asked") {
  CHECK(choose_device(std::nullopt, true, 8) == TargetDevice::cuda);
  CHECK(choose_device(std::nullopt, true, 0) == TargetDevice::cpu);
  CHECK(choose_device(std::nullopt, false, 8) == TargetDevice::cpu);
  CHECK(choose_device(TargetDevice::cpu, true, 8) == TargetDevice::cpu);
  CHECK(choose_device(TargetDevice::cuda, true, 1) == TargetDevice::cuda);
  CHECK_THROWS_WITH(choose_device(TargetDevice::cuda, false, 8),
                    ContainsSubstring("built without CUDA; build the preset cuda"));
  CHECK_THROWS_WITH(choose_device(TargetDevice::cuda, true, 0),
                    ContainsSubstring("this machine shows no GPU"));
}

TEST_CASE("the shard degree takes the ranks that are left, and the global batch makes microbatches") {
  JobConfig config = load_config({"--training.local_batch_size=4", "--training.global_batch_size=24"});
  CHECK(rondo::resolve_layout(config, 3).mesh.degree(rondo::Axis::dp_shard) == 3);
  CHECK(rondo::resolve_layout(config, 3).microbatches == 2);
  CHECK(rondo::resolve_layout(config, 1).microbatches == 6);
  config.training.global_batch_size = -1;
  CHECK(rondo::resolve_layout(config, 3).global_batch_size == 12);
  CHECK(rondo::resolve_layout(config, 3).microbatches == 1);
}

TEST_CASE("ranks that the degrees do not make are refused with the arithmetic") {
  const auto message = [](const JobConfig& config, int world_size) {
    try {
      rondo::resolve_layout(config, world_size);
    } catch (const rondo::Error& error) {
      CHECK(error.code() == rondo::ExitCode::config);
      return std::string(error.what());
    }
    return std::string();
  };
  JobConfig config = load_config({"--parallelism.data_parallel_shard_degree=3"});
  CHECK(message(config, 3).empty());
  CHECK(message(config, 4) ==
        "parallelism: pipeline 1 * replicate 1 * shard 3 * context 1 * tensor 1 = 3 ranks, but the run has "
        "4; start 3 "
        "ranks, or set parallelism.data_parallel_shard_degree = -1 to take what is left");
  config = load_config({"--parallelism.tensor_parallel_degree=2"});
  CHECK(message(config, 3) ==
        "parallelism.data_parallel_shard_degree = -1 takes the ranks that are left, but 3 ranks / 2 (the "
        "product of "
        "the other degrees) is no whole number");
  config =
      load_config({"--parallelism.tensor_parallel_degree=-1", "--parallelism.data_parallel_shard_degree=1"});
  CHECK(message(config, 4).empty());
  CHECK(message(config, 3) ==
        "parallelism.tensor_parallel_degree = 3 must divide model.n_heads = 16: each rank has a whole number "
        "of it");
  config = load_config({"--training.local_batch_size=4", "--training.global_batch_size=16"});
  CHECK(message(config, 4).empty());
  CHECK(message(config, 3) ==
        "training.global_batch_size = 16 must be a multiple of training.local_batch_size * data-parallel "
        "degree = 4 * "
        "3 = 12; the nearest is 12");
}

TEST_CASE("experts are cut by all of tensor parallelism, where there are some, or not at all") {
  const auto message = [](const std::string& model, const std::string& tensor, const std::string& cut) {
    return message_of("[model]\nname = \"" + model + "\"\n",
                      {"--parallelism.tensor_parallel_degree=" + tensor,
                       "--parallelism.expert_tensor_parallel_degree=" + cut});
  };
  for (const char* model : {"qwen3_moe", "gpt_oss", "llama4"}) CHECK(message(model, "2", "2").empty());
  CHECK(message("qwen3_moe", "4", "2") ==
        "command line: --parallelism.expert_tensor_parallel_degree=2: "
        "parallelism.expert_tensor_parallel_degree = 2 must be 1, or parallelism.tensor_parallel_degree = 4");
  CHECK(message("llama3", "2", "2") ==
        "command line: --parallelism.expert_tensor_parallel_degree=2: "
        "parallelism.expert_tensor_parallel_degree = 2 needs a model with experts, and llama3 has none; set "
        "it to 1");
}

TEST_CASE(
    "warm-up, plateau and decay add up to the schedule; the decay gives way to the warm-up, and that to the "
    "end") {
  const auto phases = [](const std::vector<std::string>& flags) {
    const rondo::ScheduleSteps steps = rondo::schedule_steps(load_config(flags));
    return std::vector<std::int64_t>{steps.warmup, steps.stable, steps.decay};
  };
  using Phases = std::vector<std::int64_t>;
  CHECK(phases({"--training.steps=1000"}) == Phases{200, 0, 800});
  CHECK(phases({"--training.steps=1000", "--lr_scheduler.decay_ratio=0.3"}) == Phases{200, 500, 300});
  CHECK(phases({"--training.steps=1000", "--lr_scheduler.decay_ratio=0.9"}) == Phases{200, 0, 800});
  CHECK(phases({"--training.steps=10", "--lr_scheduler.total_steps=1000"}) == Phases{200, 0, 800});
  CHECK(phases({"--training.steps=1"}) == Phases{1, 0, 0});
}

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "config/dump.h"
#include "tests/config/config_texts.h"

using Catch::Matchers::ContainsSubstring;
using rondo::message_of;

namespace {

struct Case {
  std::string text;
  std::vector<std::string> flags;
  std::string message;
};

void check_all(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    INFO(one.text);
    CHECK(message_of(one.text, one.flags) == one.message);
  }
}

}  // namespace

TEST_CASE("a key of a file that does not exist is placed and the nearest key named") {
  check_all({
      {"[training]\nstps = 20\n",
       {},
       "x.toml:2:1: training.stps = 20: unknown key (did you mean training.steps?)"},
      {"[traning]\nsteps = 20\n", {}, "x.toml:1:2: traning: unknown key (did you mean training?)"},
      {"[training]\nlr = 1.0\n",
       {},
       "x.toml:2:1: training.lr = 1.0: unknown key (did you mean optimizer.lr?)"},
      {"steps = 20\n", {}, "x.toml:1:1: steps = 20: unknown key (did you mean training.steps?)"},
      {"[model]\nn_kvheads = 4\n",
       {},
       "x.toml:2:1: model.n_kvheads = 4: unknown key (did you mean model.n_kv_heads?)"},
      {"[training]\nxyzzy = 1\n", {}, "x.toml:2:1: training.xyzzy = 1: unknown key"},
      {"training = 3\n",
       {},
       "x.toml:1:1: training = 3: is a section; write [training] and its keys below, or "
       "--training.key=value"},
      {"[job]\nconfig_file = \"y.toml\"\n",
       {},
       "x.toml:2:1: job.config_file = \"y.toml\": is a flag and not a key of a file"},
  });
}

TEST_CASE("a key of a megabyte and thousands of keys are refused in a few lines") {
  const std::string long_key = message_of("[training]\n" + std::string(1'000'000, 'k') + " = 1\n", {});
  CHECK(long_key.size() < 2100);
  CHECK_THAT(long_key, ContainsSubstring("x.toml:2:1: training.kkk"));
  std::string many = "[training]\n";
  for (int i = 0; i < 5000; ++i) many += "stps" + std::to_string(i) + " = 1\n";
  const std::string message = message_of(many, {});
  CHECK_THAT(message, ContainsSubstring("the configuration has 5000 problems:"));
  CHECK_THAT(message, ContainsSubstring("\n  and 4950 more"));
  CHECK(std::count(message.begin(), message.end(), '\n') == 51);
}

TEST_CASE("a key that would give orders to a terminal is shown as text") {
  CHECK_THAT(message_of("[training]\n\"\\u001b[2J\" = 1\n", {}), ContainsSubstring("\\x1b[2J"));
}

TEST_CASE("a value of the wrong type or out of its range is placed and the rule named") {
  check_all({
      {"[training]\nsteps = 0\n",
       {},
       "x.toml:2:1: training.steps = 0: must be at least 1 and at most 1000000000000"},
      {"[training]\nsteps = 1.5\n", {}, "x.toml:2:1: training.steps = 1.5: must be an integer"},
      {"[training]\nsteps = \"many\"\n", {}, "x.toml:2:1: training.steps = \"many\": must be an integer"},
      {"[training]\nsteps = 2026-01-31\n",
       {},
       "x.toml:2:1: training.steps: must be an integer, but is a date or time"},
      {"[training.steps]\nx = 1\n", {}, "x.toml:1:11: training.steps: must be an integer, but is a table"},
      {"[training]\ndtype = [\"float32\", 3]\n",
       {},
       "x.toml:2:1: training.dtype: must be a text, but is a list"},
      {"[training]\nshuffle = 1\n", {}, "x.toml:2:1: training.shuffle = 1: must be a boolean"},
      {"[training]\ndtype = \"float16\"\n",
       {},
       "x.toml:2:1: training.dtype = \"float16\": allowed: float32, bfloat16, float64"},
      {"[training]\nglobal_batch_size = 0\n",
       {},
       "x.toml:2:1: training.global_batch_size = 0: must be -1 or at least 1"},
      {"[training]\nmax_norm = 0\n", {}, "x.toml:2:1: training.max_norm = 0: must be more than 0"},
      {"[training]\ndatasets = [\"c4\"]\n",
       {},
       "x.toml:2:1: training.datasets = [\"c4\"]: must hold entries like c4=/data/c4, but \"c4\" is not one"},
      {"[training]\ndataset_weights = [1, nan]\n",
       {},
       "x.toml:2:1: training.dataset_weights = [1.0, nan]: must be finite"},
      {"[training]\ndataset_weights = [\"1\"]\n",
       {},
       "x.toml:2:1: training.dataset_weights = [\"1\"]: must be a list of numbers"},
      {"",
       {"--training.dataset_weights=1,0"},
       "command line: --training.dataset_weights=1,0: must be more than 0"},
      {"",
       {"--training.dataset_weights=1,x"},
       "command line: --training.dataset_weights=1,x: must be a list of numbers: 1,2 or [1, 2]"},
      {"[training]\nmax_norm = -inf\n", {}, "x.toml:2:1: training.max_norm = -inf: must be more than 0"},
      {"[optimizer]\nlr = nan\n", {}, "x.toml:2:1: optimizer.lr = nan: must be finite"},
      {"[optimizer]\nlr = -inf\n", {}, "x.toml:2:1: optimizer.lr = -inf: must be finite"},
      {"[optimizer]\nbeta1 = 1.0\n",
       {},
       "x.toml:2:1: optimizer.beta1 = 1.0: must be at least 0 and less than 1"},
      {"[compile]\npasses = \"default\"\n",
       {},
       "x.toml:2:1: compile.passes = \"default\": must be a list of texts"},
      {"[job]\ndescription = \"a\\u0000b\"\n",
       {},
       "x.toml:2:1: job.description = \"a\\u0000b\": must not contain a NUL byte"},
  });
}

TEST_CASE("a bad flag is placed on the command line") {
  check_all({
      {"",
       {"--training.stps=20"},
       "command line: --training.stps=20: unknown key (did you mean training.steps?)"},
      {"", {"--steps=20"}, "command line: --steps=20: unknown key (did you mean training.steps?)"},
      {"", {"--training.steps", "ten"}, "command line: --training.steps ten: must be an integer"},
      {"", {"--training.steps=1e3"}, "command line: --training.steps=1e3: must be an integer"},
      {"", {"--training.steps="}, "command line: --training.steps=: must be an integer"},
      {"", {"--training.steps"}, "command line: --training.steps: needs a value, an integer"},
      {"",
       {"--training.steps=99999999999999999999"},
       "command line: --training.steps=99999999999999999999: is out of the range of 64 bits"},
      {"", {"--training.no-steps"}, "command line: --training.no-steps: needs a value, an integer"},
      {"", {"--compile.enable=maybe"}, "command line: --compile.enable=maybe: must be true or false"},
      {"", {"--optimizer.lr=fast"}, "command line: --optimizer.lr=fast: must be a number"},
      {"", {"--optimizer.lr=inf"}, "command line: --optimizer.lr=inf: must be finite"},
      {"",
       {"--compile.passes=[1, 2]"},
       "command line: --compile.passes=[1, 2]: must be a list of texts: a,b or [\"a\", \"b\"]"},
      {"",
       {"--compile=false"},
       "command line: --compile=false: is a section; write [compile] and its keys below, or "
       "--compile.key=value"},
      {"", {"training.steps=3"}, "command line: training.steps=3: expected a flag, --section.key=value"},
      {"", {"--job.description=\xff"}, "command line: word 2 is not valid UTF-8"},
  });
}

TEST_CASE("a model or a flavor that does not exist is refused with those that do") {
  check_all({
      {"[model]\nname = \"lama3\"\n",
       {},
       "x.toml:2:1: model.name = \"lama3\": no such model (did you mean llama3?); allowed: llama3, "
       "deepseek_v3, qwen3, qwen3_moe, olmo2, gpt_oss, llama4"},
      {"",
       {"--model.flavor=8b-instruct"},
       "command line: --model.flavor=8b-instruct: no such flavor; allowed: 1B, 3B, 8B, 70B, 405B, "
       "debugmodel"},
      {"",
       {"--model.flavor=debug_model"},
       "command line: --model.flavor=debug_model: no such flavor (did you mean debugmodel?); allowed: 1B, "
       "3B, 8B, "
       "70B, 405B, debugmodel"},
  });
}

TEST_CASE(
    "a flavor on the command line is refused over a file that sets every size, for it would do nothing") {
  const std::string resolved = to_toml(rondo::load_config({}));
  CHECK(message_of(resolved, {"--model.flavor=debugmodel"}).empty());
  CHECK(message_of(resolved, {"--model.dim=512"}).empty());
  CHECK(message_of(resolved, {"--model.flavor=8B"}) ==
        "command line: --model.flavor=8B: has no effect because the file sets every size of the model; "
        "remove the sizes from its [model] section");
}

TEST_CASE("weights that transformers has no model for are refused before a run that would save them for it") {
  const std::string saves = "[checkpoint]\nenable = true\nlast_save_in_hf = true\n";
  CHECK(message_of("[model]\nname = \"deepseek_v3\"\nflavor = \"16B\"\n" + saves) ==
        "x.toml:6:1: checkpoint.last_save_in_hf = true: this model has no Hugging Face form: "
        "DeepseekV3ForCausalLM of transformers computes something else where model.score_func = \"softmax\", "
        "and not \"sigmoid\"");
  CHECK(message_of("[model]\nname = \"deepseek_v3\"\nflavor = \"671B\"\n" + saves).empty());
  CHECK(message_of("[model]\nname = \"qwen3_moe\"\n" + saves).empty());
  CHECK(
      message_of("[model]\nname = \"qwen3_moe\"\nload_balance_coeff = 1e-3\n" + saves) ==
      "x.toml:6:1: checkpoint.last_save_in_hf = true: this model has no Hugging Face form: no bias balances "
      "the load of Qwen3MoeForCausalLM of transformers; train with model.load_balance_coeff = 0 and balance "
      "by model.sequence_balance_coeff");
  CHECK(
      message_of("[model]\nsliding_window = 64\n" + saves) ==
      "x.toml:5:1: checkpoint.last_save_in_hf = true: this model has no Hugging Face form: LlamaForCausalLM "
      "of transformers sees all tokens before each; train with model.sliding_window = 0");
}

TEST_CASE("the keys of [checkpoint] that contradict each other are refused") {
  check_all({
      {"[checkpoint]\nenable = true\nkeep_latest_k = 1\n",
       {},
       "x.toml:3:1: checkpoint.keep_latest_k = 1: must not be 1: the newest checkpoint may be damaged"},
      {"[checkpoint]\nenable = true\nfolder = \"../elsewhere\"\n",
       {},
       "x.toml:3:1: checkpoint.folder = \"../elsewhere\": must be a folder below job.dump_folder"},
      {"[checkpoint]\nenable = true\nexclude_from_loading = [\"model\"]\n",
       {},
       "x.toml:3:1: checkpoint.exclude_from_loading = [\"model\"]: must hold only optimizer, lr_scheduler, "
       "dataloader and train_state"},
      {"[checkpoint]\nenable = true\ninitial_load_in_hf_quantized = true\n",
       {},
       "x.toml:3:1: checkpoint.initial_load_in_hf_quantized = true: "
       "checkpoint.initial_load_in_hf_quantized needs checkpoint.initial_load_in_hf = true"},
      {"[checkpoint]\nenable = true\ninitial_load_in_hf = true\n",
       {},
       "x.toml:3:1: checkpoint.initial_load_in_hf = true: needs the folder to load from: "
       "checkpoint.initial_load_path, or model.hf_assets_path"},
  });
}

TEST_CASE("a trace must fit between two traces, and what is written lies below the run folder") {
  check_all({
      {"[profiling]\nenable_profiling = true\nprofile_freq = 4\nprofiler_active = 2\n",
       {},
       "x.toml:3:1: profiling.profile_freq = 4: profiling.profiler_warmup + profiling.profiler_active = 3 + "
       "2 "
       "must be at most profiling.profile_freq = 4"},
      {"[profiling]\nenable_profiling = true\nsave_traces_folder = \"../traces\"\n",
       {},
       "x.toml:3:1: profiling.save_traces_folder = \"../traces\": must be a folder below job.dump_folder"},
      {"[comm]\nsave_traces_file_prefix = \"a/b\"\n",
       {},
       "x.toml:2:1: comm.save_traces_file_prefix = \"a/b\": must be a prefix of a file name, without /"},
  });
}

TEST_CASE("a rule between keys spells out its arithmetic and blames what the user wrote") {
  check_all({
      {"[model]\nname = \"llama3\"\nflavor = \"8B\"\n",
       {"--parallelism.tensor_parallel_degree=16"},
       "command line: --parallelism.tensor_parallel_degree=16: parallelism.tensor_parallel_degree = 16 must "
       "divide "
       "model.n_kv_heads = 8: each rank has a whole number of it"},
      {"[training]\nseq_len = 15\nlocal_batch_size = 3\n",
       {"--parallelism.tensor_parallel_degree=2"},
       "command line: --parallelism.tensor_parallel_degree=2: parallelism.tensor_parallel_degree = 2 must "
       "divide "
       "training.local_batch_size * seq_len = 3 * 15 = 45: the ranks that share the layers share the tokens"},
      {"[model]\ndim = 250\n",
       {},
       "x.toml:2:1: model.dim = 250: model.dim must be a multiple of model.n_heads, and 250 = 16 * 15 + 10 "
       "(model.head_dim gives heads a width of their own)"},
      {"[model]\nn_heads = 256\nn_kv_heads = 256\n",
       {},
       "x.toml:2:1: model.n_heads = 256: model.dim / model.n_heads = 256 / 256 = 1 must be even: rotary "
       "embedding "
       "turns pairs"},
      {"[model]\nn_kv_heads = 6\n",
       {"--model.n_heads=32"},
       "command line: --model.n_heads=32: model.n_kv_heads must divide model.n_heads: 6 does not divide 32"},
      {"[model]\nrope_low_freq_factor = 5\n",
       {},
       "x.toml:2:1: model.rope_low_freq_factor = 5: model.rope_low_freq_factor = 5 must be at most "
       "model.rope_high_freq_factor = 4"},
      {"[model]\nvocab_size = 257\n",
       {},
       "x.toml:2:1: model.vocab_size = 257: model.vocab_size = 257 must be at least 258: the byte tokenizer "
       "has 256 "
       "bytes, a begin and an end"},
      {"[training]\nseq_len = 200000\n",
       {},
       "x.toml:2:1: training.seq_len = 200000: training.seq_len = 200000 must be at most model.max_seq_len = "
       "131072"},
      {"[model]\nmax_seq_len = 1024\n[training]\nseq_len = 1024\n[validation]\nenable = true\n",
       {},
       "x.toml:2:1: model.max_seq_len = 1024: validation.seq_len = 2048 must be at most model.max_seq_len = "
       "1024"},
      {"[training]\nlocal_batch_size = 4\nglobal_batch_size = 10\n",
       {},
       "x.toml:3:1: training.global_batch_size = 10: training.global_batch_size = 10 must be a multiple of "
       "training.local_batch_size = 4 times the data-parallel degree"},
      {"[training]\nlocal_batch_size = 4\nglobal_batch_size = 16\n",
       {"--parallelism.data_parallel_shard_degree=3"},
       "command line: --parallelism.data_parallel_shard_degree=3: training.global_batch_size = 16 must be a "
       "multiple "
       "of training.local_batch_size * data-parallel degree = 4 * 3 = 12"},
      {"[training]\nlocal_batch_size = 4\nglobal_batch_size = 16\n",
       {"--parallelism.data_parallel_shard_degree=2", "--parallelism.data_parallel_replicate_degree=3"},
       "command line: --parallelism.data_parallel_shard_degree=2: training.global_batch_size = 16 must be a "
       "multiple of training.local_batch_size * data-parallel degree = 4 * 6 = 24"},
      {"[model]\nname = \"deepseek_v3\"\n[parallelism]\nexpert_parallel_degree = 3\n",
       {},
       "x.toml:4:1: parallelism.expert_parallel_degree = 3: parallelism.expert_parallel_degree = 3 must "
       "divide "
       "model.n_experts = 8: each rank has a whole number of it"},
      {"[parallelism]\nexpert_parallel_degree = 2\n",
       {},
       "x.toml:2:1: parallelism.expert_parallel_degree = 2: parallelism.expert_parallel_degree = 2 needs a "
       "model "
       "with experts, and llama3 has none; set it to 1"},
      {"[parallelism]\ndata_parallel_replicate_degree = -1\n",
       {},
       "x.toml:2:1: parallelism.data_parallel_replicate_degree = -1: "
       "parallelism.data_parallel_replicate_degree and parallelism.data_parallel_shard_degree are both -1, "
       "but "
       "only one degree can take the ranks that are left; set the other"},
      {"[training]\ndataset_path = \"a, b\"\n",
       {"--training.dataset_weights=1,2,3"},
       "command line: --training.dataset_weights=1,2,3: training.dataset_weights has 3 numbers, but "
       "training.dataset_path names 2 sources: give one for each, or none"},
      {"[activation_checkpoint]\nmode = \"full\"\n",
       {"--compile.memory_policy=min_cut"},
       "command line: --compile.memory_policy=min_cut: activation_checkpoint.mode = \"full\" means "
       "compile.memory_policy = \"full\"; they disagree; set only one"},
      {"[activation_checkpoint]\nmode = \"memory_budget\"\n[compile]\nenable = false\n",
       {},
       "x.toml:2:1: activation_checkpoint.mode = \"memory_budget\": needs a recorded graph; an eager run "
       "(compile.enable = false) supports activation_checkpoint.mode none, selective and full"},
      {"[compile]\nenable = false\nmemory_policy = \"full\"\n",
       {},
       "x.toml:3:1: compile.memory_policy = \"full\": needs a recorded graph; an eager run (compile.enable = "
       "false) supports activation_checkpoint.mode none, selective and full"},
      {"[compile]\nmemory_budget_gib = 2\n",
       {},
       "x.toml:2:1: compile.memory_budget_gib = 2: needs compile.memory_policy = \"budget\"; it is \"none\""},
      {"[compile]\nfull_recompute_save_ops = [\"layers.*::aten.mm.default\"]\n",
       {},
       "x.toml:2:1: compile.full_recompute_save_ops = [\"layers.*::aten.mm.default\"]: needs "
       "compile.memory_policy = \"full\"; it is \"none\""},
      {"[compile]\nloss_chunks = 4\n",
       {},
       "x.toml:2:1: compile.loss_chunks = 4: needs compile.numerics = \"rounds\", because sums over chunks "
       "have another order"},
      {"[compile]\nmatmul_algorithms = \"" RONDO_SOURCE_DIR "/tests/attack/corpus/matmul_table/h200.json\"\n",
       {"--compile.numerics=rounds", "--job.device=cpu"},
       "command line: --job.device=cpu: compile.matmul_algorithms is for GPUs, but the run is on the CPU; "
       "remove it"},
      {"[compile]\nnumerics = \"rounds\"\nloss_chunks = -2\n",
       {},
       "x.toml:3:1: compile.loss_chunks = -2: must be at least -1 and at most 1000000"},
      {"[compile]\nmemory_policy = \"full\"\nfull_recompute_save_ops = [\"layers.*::mm\"]\n",
       {},
       "x.toml:3:1: compile.full_recompute_save_ops = [\"layers.*::mm\"]: must hold entries like "
       "layers.*.attention::aten.mm.default, but \"layers.*::mm\" is not one"},
      {"[compile]\nfsdp_buckets = [\"layers.0.*||norm.*\"]\n",
       {},
       "x.toml:2:1: compile.fsdp_buckets = [\"layers.0.*||norm.*\"]: must hold names of parameters separated "
       "by | or +, but \"layers.0.*||norm.*\" has an empty one"},
      {"[validation]\nenable = true\nholdout_fraction = 0\n",
       {},
       "x.toml:3:1: validation.holdout_fraction = 0: validation needs data: validation.holdout_fraction "
       "above 0, or "
       "validation.dataset_path"},
  });
}

TEST_CASE("a rule is not asked about a value that was refused") {
  CHECK(message_of("[model]\ndim = -3\n") ==
        "x.toml:2:1: model.dim = -3: must be at least 1 and at most 1048576");
}

TEST_CASE("all problems are reported together, in the order of the file and then of the flags") {
  CHECK(message_of("[training]\nsteps = 0\nseq_len = 1.5\n[a]\nb = 1\n", {"--x.y=1", "--model.dim=250"}) ==
        "the configuration has 5 problems:\n"
        "  x.toml:2:1: training.steps = 0: must be at least 1 and at most 1000000000000\n"
        "  x.toml:3:1: training.seq_len = 1.5: must be an integer\n"
        "  x.toml:4:2: a: unknown key\n"
        "  command line: --x.y=1: unknown key\n"
        "  command line: --model.dim=250: model.dim must be a multiple of model.n_heads, and 250 = 16 * 15 + "
        "10 (model.head_dim gives heads a width of their own)");
}

TEST_CASE("what is not TOML is placed") {
  CHECK_THAT(message_of("[training]\nsteps = \n"), ContainsSubstring("x.toml:2:9: not valid TOML: "));
  CHECK_THAT(message_of("[training]\nsteps = 1\nsteps = 2\n"),
             ContainsSubstring("x.toml:3:9: not valid TOML: "));
  CHECK_THAT(message_of("[job]\ndescription = \"\xc3\x28\"\n"), ContainsSubstring("x.toml:2:"));
  CHECK_THAT(message_of("[training]\nsteps = 99999999999999999999\n"),
             ContainsSubstring("not representable in 64 bits"));
}

TEST_CASE("a file that cannot be read is named") {
  using rondo::load_config;
  const auto message = [](const std::string& path) {
    try {
      load_config({"--job.config_file", path});
    } catch (const rondo::Error& error) {
      CHECK(error.code() == rondo::ExitCode::config);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string presets = RONDO_SOURCE_DIR "/configs/";
  CHECK(message(presets + "llama3_debg.toml") ==
        "command line: --job.config_file " + presets + "llama3_debg.toml: cannot read \"" + presets +
            "llama3_debg.toml\": no such file (did you mean " + presets + "llama3_debug.toml?)");
  CHECK_THAT(message(presets), ContainsSubstring("it is a folder; name a TOML file"));
  CHECK_THAT(message_of(std::string((1 << 20) + 1, '#')), ContainsSubstring("it is larger than 1 MiB"));
  CHECK(message_of(std::string(1 << 20, '#')).empty());
}

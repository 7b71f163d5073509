#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <random>
#include <set>

#include "config/absent_features.h"
#include "config/dump.h"
#include "config/help.h"
#include "models/parts/model_spec.h"
#include "tests/config/config_texts.h"

using Catch::Matchers::ContainsSubstring;
using rondo::Field;
using rondo::FieldType;
using rondo::FieldValue;
using rondo::JobConfig;
using rondo::load_config;
using rondo::load_text;

namespace {

class RandomValues {
 public:
  explicit RandomValues(unsigned seed) : random_(seed) {}

  // A value that the field's own rule accepts.
  FieldValue of(const Field& field) {
    for (int tries = 0; tries < 1000; ++tries) {
      const FieldValue value = any(field);
      if (rondo::broken_rule(field, value).empty()) return value;
    }
    return field.default_value;
  }

 private:
  int below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }

  FieldValue any(const Field& field) {
    if (field.optional && below(2) == 0) return {};
    switch (field.type) {
      case FieldType::boolean:
        return below(2) == 0;
      case FieldType::integer:
        return std::int64_t{below(2000) - 1};
      case FieldType::number:
        return std::uniform_real_distribution<double>(0, below(2) == 0 ? 1 : 1e6)(random_);
      case FieldType::text:
        return text(field);
      case FieldType::numbers:
        return std::vector<double>(static_cast<std::size_t>(below(3)), 0.5 * below(9));
      case FieldType::texts:
        return std::vector<std::string>(static_cast<std::size_t>(below(3)), text(field));
    }
    return {};
  }

  std::string text(const Field& field) {
    if (!field.rule.allowed.empty())
      return field.rule.allowed[static_cast<std::size_t>(below(static_cast<int>(field.rule.allowed.size())))];
    static const std::vector<std::string> pieces = {"a", " ", "\"", "\\", "\n", "\t", "#", "ß", "\x7f", "="};
    std::string out;
    for (int i = below(8); i >= 0; --i)
      out += pieces[static_cast<std::size_t>(below(static_cast<int>(pieces.size())))];
    return out;
  }

  std::mt19937 random_;
};

// Every field random, but for the rules between fields, which a few fixed values keep.
JobConfig random_config(unsigned seed) {
  RandomValues values(seed);
  JobConfig config = load_config({});
  for (const rondo::Section& section : rondo::sections())
    if (section.name != "model")
      for (const Field& field : *section.fields)
        if (!field.rule.flag_only) field.set(section.in(config), values.of(field));
  for (const Field& field : *rondo::model_specs()[0].fields)
    config.model.sizes[field.name] = values.of(field);
  config.model.flavor.clear();  // no flavor has these sizes
  const JobConfig plain = load_config({});
  for (const char* name : {"dim", "head_dim", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len",
                           "rope_low_freq_factor", "rope_high_freq_factor"})
    config.model.sizes[name] = plain.model.sizes.at(name);
  config.training.global_batch_size = -1;
  config.training.dtype = rondo::Precision::float32;  // float64 is for one device
  config.training.dataset_path = "a,b";
  config.training.dataset_weights = {0.1, 1.0 / 3};
  config.lr_scheduler.warmup_steps = 0;
  config.activation_checkpoint.mode = rondo::ActivationCheckpointMode::none;
  config.compile.memory_policy.reset();
  config.compile.memory_budget_gib = 0;
  config.compile.full_recompute_save_ops.clear();
  config.compile.full_recompute_all_to_all = false;
  config.compile.loss_chunks = 0;
  config.compile.fsdp_buckets.clear();
  config.compile.passes = {"default"};
  config.compile.disable_passes.clear();
  config.compile.matmul_algorithms.clear();
  config.compile.attention.reset();
  config.training.datasets = {"a=b"};
  config.training.dataset = "a";
  config.validation.enable = config.profiling.enable_profiling = false;
  config.job.time_margin_seconds = config.job.time_limit_seconds / 2;
  config.parallelism.tensor_parallel_degree = 1;  // no random size need divide by it, or by the next two
  config.parallelism.enable_async_tensor_parallel = false;
  config.compile.tensor_parallel_pieces = 0;
  config.optimizer.early_step_in_backward = config.training.enable_cpu_offload = false;
  config.parallelism.expert_parallel_degree = config.parallelism.expert_tensor_parallel_degree = 1;
  config.parallelism.context_parallel_degree = config.parallelism.pipeline_parallel_degree = 1;
  config.parallelism.overlapped_microbatches = 1;
  config.parallelism.expert_parallel_combine = rondo::ExpertCombine::reduce_scatter;
  config.ep_overlap.enabled = false;
  config.checkpoint.enable = true;
  config.checkpoint.folder = "checkpoint";
  config.checkpoint.load_only = config.checkpoint.initial_load_in_hf = config.checkpoint.last_save_in_hf =
      false;
  config.checkpoint.initial_load_in_hf_quantized = false;
  return config;
}

}  // namespace

TEST_CASE("reading the resolved text back gives an equal config, with every bit of every number") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const JobConfig config = random_config(seed);
    const std::string text = to_toml(config);
    INFO(text);
    JobConfig again = load_text(text);
    again.job.config_file.clear();
    REQUIRE(again == config);
    REQUIRE(to_toml(again) == text);
    REQUIRE(fingerprint(again) == fingerprint(config));
  }
}

TEST_CASE("the resolved text holds all sizes of the model") {
  const std::string text = to_toml(load_config({"--model.flavor=8B"}));
  for (const char* line : {"\ndim = 4096\n", "\nn_layers = 32\n", "\nffn_dim_multiplier = 1.3\n",
                           "\nrope_theta = 500000.0\n", "\nnorm_eps = 1e-05\n", "\nflavor = \"8B\"\n"})
    CHECK(text.find(line) != std::string::npos);
}

TEST_CASE("the fingerprint follows every key but those of the job section") {
  const std::string plain = fingerprint(load_config({}));
  CHECK(plain.size() == 32);
  CHECK(fingerprint(load_config({"--job.dump_folder=elsewhere", "--job.print_config"})) == plain);
  for (const char* flag : {"--training.steps=300", "--model.dim=512", "--compile.enable=false",
                           "--optimizer.lr=0.00080000000000000015", "--lr_scheduler.total_steps=400"})
    CHECK(fingerprint(load_config({flag})) != plain);
}

TEST_CASE("help tells type, default, range, unit and meaning of a key") {
  CHECK(rondo::help_page("training.steps") ==
        "training.steps\n"
        "  meaning  optimizer steps of the run\n"
        "  type     an integer\n"
        "  default  10000\n"
        "  range    at least 1 and at most 1000000000000\n"
        "  unit     steps\n");
  CHECK(rondo::help_page("lr_scheduler.total_steps").find("an integer, or not set") != std::string::npos);
  CHECK(rondo::help_page("model.dim").find("width of the residual stream") != std::string::npos);
  CHECK(rondo::help_page("metrics.enable_wandb").find("not in this version") != std::string::npos);
}

TEST_CASE("help of a section lists each of its keys, and help alone lists each section") {
  for (const rondo::Section& section : rondo::sections()) {
    CHECK(rondo::help_page("").find("  " + section.name + " ") != std::string::npos);
    for (const Field& field : *section.fields) {
      CHECK_FALSE(field.meaning.empty());
      CHECK(rondo::help_page(section.name).find("  " + field.name + " ") != std::string::npos);
      CHECK(rondo::help_page(section.name + "." + field.name).find(field.meaning) != std::string::npos);
    }
  }
  CHECK(rondo::help_page("quantize.linear.float8").find("recipe_name") != std::string::npos);
}

TEST_CASE("help of what does not exist is a mistake of usage, with the nearest name") {
  try {
    rondo::help_page("training.stps");
    FAIL("no error");
  } catch (const rondo::Error& error) {
    CHECK(error.code() == rondo::ExitCode::usage);
    CHECK(std::string(error.what()) ==
          "nothing is known of \"training.stps\" (did you mean training.steps?); `rondo help` lists the "
          "sections");
  }
}

TEST_CASE("help of a word finds keys by their names and meanings, and answers for what Rondo does not have") {
  CHECK_THAT(rondo::search_help("wsd"), ContainsSubstring("  lr_scheduler.decay_ratio "));
  CHECK_THAT(rondo::search_help("warm-up"), ContainsSubstring("  lr_scheduler.warmup_steps "));
  CHECK_THAT(rondo::search_help("EMA"), ContainsSubstring("Not in Rondo: Averages of weights. No average"));
  CHECK(rondo::search_help("xyzzy").empty());
  CHECK_THAT(rondo::search_help("gpt-oss"), ContainsSubstring("  gpt_oss "));
  CHECK_THAT(rondo::search_help("kimi"), ContainsSubstring("  deepseek_v3 "));
  CHECK_THAT(rondo::search_help("yarn"), ContainsSubstring("  model.rope_beta_fast "));
  CHECK_THAT(rondo::search_help("zbvzero"), ContainsSubstring("  parallelism.pipeline_parallel_schedule "));
  CHECK(rondo::search_help("training.stps").empty());
  CHECK(rondo::mentions("layers that remain", "remain"));
  CHECK_FALSE(rondo::mentions("what remains of a schema", "ema"));
}

TEST_CASE("docs/features.md has each feature that Rondo does not have, and each has words of its own") {
  std::ifstream file(RONDO_SOURCE_DIR "/docs/features.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  std::set<std::string_view> words;
  for (const rondo::AbsentFeature& feature : rondo::absent_features()) {
    const std::string row = fmt::format("| {} | {} |\n", feature.name, feature.answer);
    INFO("docs/features.md should have this line:\n" << row);
    CHECK(page.find(row) != page.npos);
    for (const std::string_view word : feature.words) CHECK(words.insert(word).second);
  }
}

TEST_CASE("the default of every field obeys its own rule") {
  for (const rondo::Section& section : rondo::sections())
    for (const Field& field : *section.fields) CHECK(rondo::broken_rule(field, field.default_value).empty());
}

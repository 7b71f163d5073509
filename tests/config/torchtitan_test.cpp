// torchtitan v0.2.2's configuration: each of its keys with its default, and the values of its files
// for Llama 3 and DeepSeek-V3.
#include "config/torchtitan.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "config/derived/layout.h"
#include "config/derived/paths.h"
#include "config/dump.h"
#include "config/load.h"
#include "config/schema/keys.h"
#include "config/schema/unsupported.h"
#include "tests/config/config_texts.h"
#include "tests/config/torchtitan_keys.h"

using Catch::Matchers::ContainsSubstring;
using rondo::Fate;
using enum rondo::Here;
using rondo::Field;
using rondo::JobConfig;
using rondo::Key;
using rondo::kKeys;
using rondo::load_text;
using rondo::message_of;

namespace {

const rondo::UnsupportedKey* unsupported(const std::string& key) {
  for (const rondo::UnsupportedKey& one : rondo::unsupported_keys())
    if (one.section + "." + one.field.name == key) return &one;
  return nullptr;
}

// A value that is not the default.
std::string other_value(const Field& field) {
  switch (field.type) {
    case rondo::FieldType::boolean:
      return std::get<bool>(field.default_value) ? "false" : "true";
    case rondo::FieldType::text:
      return "\"other\"";
    case rondo::FieldType::texts:
      return "[\"other\"]";
    default:
      return "64";
  }
}

bool notes_hold(const JobConfig& config, const std::string& text) {
  return std::any_of(config.notes.begin(), config.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

// What the files share.
const std::string kFile = R"(
job.dump_folder = "./outputs"
profiling.save_traces_folder = "profile_trace"
metrics.save_tb_folder = "tb"
optimizer.name = "AdamW"
optimizer.eps = 1e-8
training.max_norm = 1.0
parallelism.data_parallel_replicate_degree = 1
parallelism.data_parallel_shard_degree = -1
parallelism.pipeline_parallel_degree = 1
checkpoint.enable = false
checkpoint.folder = "checkpoint"
checkpoint.export_dtype = "float32"
checkpoint.async_mode = "disabled"
)";

const std::string kLlama = kFile + R"(
parallelism.context_parallel_degree = 1
compile.components = ["model", "loss"]
quantize.linear.float8.filter_fqns = ["output"]
validation.enable = false
validation.dataset = "c4_validation"
model.name = "llama3"
)";

const std::string kLargeLlama = kLlama + R"(
profiling.enable_profiling = true
profiling.profile_freq = 100
metrics.log_freq = 10
metrics.enable_tensorboard = true
training.seq_len = 8192
training.dataset = "c4"
checkpoint.interval = 500
checkpoint.last_save_model_only = true
validation.freq = 500
validation.steps = 1200
)";

const std::string kNotConverted = R"(
quantize.linear.float8.enable_fsdp_float8_all_gather = false
quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp = false
)";

const std::string kDebug = kNotConverted + R"(
metrics.log_freq = 1
metrics.enable_wandb = false
model.flavor = "debugmodel"
model.hf_assets_path = "./tests/assets/tokenizer"
optimizer.lr = 8e-4
lr_scheduler.warmup_steps = 2
lr_scheduler.decay_ratio = 0.8
lr_scheduler.decay_type = "linear"
lr_scheduler.min_lr_factor = 0.0
training.local_batch_size = 8
training.seq_len = 2048
training.steps = 10
training.dataset = "c4_test"
parallelism.fsdp_reshard_after_forward = "default"
parallelism.tensor_parallel_degree = 1
parallelism.enable_async_tensor_parallel = false
checkpoint.interval = 10
checkpoint.last_save_model_only = false
activation_checkpoint.mode = "selective"
compile.enable = false
)";

const std::string kDeepSeek = kFile + R"(
model.name = "deepseek_v3"
parallelism.expert_tensor_parallel_degree = 1
activation_checkpoint.selective_ac_option = "op"
quantize.linear.float8.filter_fqns = ["output", "router.gate"]
quantize.grouped_mm.float8.fqns = ["experts"]
)";

const std::string kLargeDeepSeek = kDeepSeek + kNotConverted + R"(
metrics.enable_wandb = false
optimizer.lr = 2.2e-4
lr_scheduler.decay_ratio = 0.8
lr_scheduler.decay_type = "cosine"
lr_scheduler.min_lr_factor = 0.1
training.local_batch_size = 4
training.seq_len = 4096
training.dataset = "c4"
parallelism.pipeline_parallel_schedule = "Interleaved1F1B"
activation_checkpoint.mode = "selective"
compile.enable = true
compile.components = ["loss"]
)";

struct File {
  std::string name, text;
};
const std::vector<File> kFiles = {
    {"llama3 debug_model", kLlama + kDebug + R"(
parallelism.pipeline_parallel_schedule = "Interleaved1F1B"
activation_checkpoint.selective_ac_option = "2"
validation.freq = 5
validation.steps = 10
)"},
    {"llama3_8b", kLargeLlama + kNotConverted + R"(
model.flavor = "8B"
model.hf_assets_path = "./assets/hf/Llama-3.1-8B"
optimizer.lr = 3e-4
lr_scheduler.warmup_steps = 200
training.local_batch_size = 1
training.steps = 1000
parallelism.tensor_parallel_degree = 1
activation_checkpoint.mode = "selective"
activation_checkpoint.selective_ac_option = "op"
compile.enable = false
)"},
    {"llama3_70b", kLargeLlama + kNotConverted + R"(
model.flavor = "70B"
model.hf_assets_path = "./assets/hf/Llama-3.1-70B"
optimizer.lr = 1.5e-4
lr_scheduler.warmup_steps = 200
training.local_batch_size = 8
training.steps = 1000
parallelism.tensor_parallel_degree = 8
activation_checkpoint.mode = "full"
compile.enable = false
)"},
    {"deepseek_v3 debug_model", kDeepSeek + kDebug + R"(
parallelism.pipeline_parallel_schedule = "1F1B"
parallelism.context_parallel_degree = 1
parallelism.expert_parallel_degree = 1
compile.components = ["model", "loss"]
)"},
    {"deepseek_v3_16b", kLargeDeepSeek + R"(
model.flavor = "16B"
model.hf_assets_path = "./assets/hf/deepseek-moe-16b-base"
lr_scheduler.warmup_steps = 200
training.steps = 1000
parallelism.expert_parallel_degree = 8
checkpoint.interval = 10
)"},
    {"deepseek_v3_671b", kLargeDeepSeek + R"(
model.flavor = "671B"
model.hf_assets_path = "./assets/hf/DeepSeek-V3.1-Base"
lr_scheduler.warmup_steps = 2_000
training.steps = 10_000
parallelism.expert_parallel_degree = 1
checkpoint.interval = 500
)"},
};

const std::string kLlama405B = kLargeLlama + R"(
model.flavor = "405B"
model.hf_assets_path = "./assets/hf/Llama-3.1-405B"
model.converters = ["float8"]
optimizer.lr = 8e-5
lr_scheduler.warmup_steps = 600
training.local_batch_size = 2
training.steps = 3000
parallelism.tensor_parallel_degree = 8
parallelism.enable_async_tensor_parallel = true
activation_checkpoint.mode = "full"
compile.enable = true
quantize.linear.float8.enable_fsdp_float8_all_gather = true
quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp = true
)";

}  // namespace

TEST_CASE("each of torchtitan's 149 keys is served, or without effect, or refused, and says why") {
  REQUIRE(kKeys.size() == 149);
  for (const Key& row : kKeys) {
    INFO(row.key);
    const Field* field = rondo::known_field(row.key);
    REQUIRE(field != nullptr);
    const rondo::UnsupportedKey* other = unsupported(row.key);
    const bool is_refused = other ? other->fate == Fate::refused : !field->rule.unsupported.empty();
    const rondo::Here here = is_refused ? refused : other ? harmless : served;
    CHECK(here == row.here);
    if (here == served) continue;
    const std::string message = message_of(std::string(row.key) + " = " + other_value(*field) + "\n");
    if (here == harmless) {
      CHECK(message.empty());
      CHECK_FALSE(other->reason.empty());
    } else {
      CHECK_THAT(message, ContainsSubstring(field->rule.unsupported + " not in this version"));
    }
  }
}

TEST_CASE("a file with all defaults of torchtitan loads, and those that are others here are listed") {
  std::string text;
  for (const Key& row : kKeys)
    if (*row.value != '\0' && row.key != std::string("job.config_file"))
      text += std::string(row.key) + " = " + row.value + "\n";
  CHECK(message_of(text).empty());
  const JobConfig ours = rondo::load_config({});
  for (const Key& row : kKeys) {
    if (row.here != served) continue;
    INFO(row.key);
    const std::string here = rondo::to_toml(value_at(ours, row.key));
    const std::string theirs = *row.value == '\0' ? "not set" : row.value;
    const bool same =
        here == theirs || (theirs == "not set" && (here.empty() || here == "\"\"" || here == "[]"));
    const auto& listed = rondo::other_defaults();
    const auto found = std::find_if(listed.begin(), listed.end(), [&](const rondo::OtherDefault& one) {
      return row.key == std::string(one.key);
    });
    CHECK(same == (found == listed.end()));
    if (found != listed.end()) CHECK(found->theirs == theirs);
  }
}

TEST_CASE("six of torchtitan's files for Llama 3 and DeepSeek-V3 load") {
  for (const File& file : kFiles) {
    INFO(file.name);
    CHECK(message_of(file.text).empty());
    CHECK(message_of(file.text, {"--training.steps=1"}).empty());
  }
}

TEST_CASE("torchtitan's file for 405B loads; without a GPU it asks for emulated float8") {
  CHECK(message_of(kLlama405B, {"--quantize.linear.float8.emulate=true"}).empty());
  CHECK_THAT(message_of(kLlama405B), ContainsSubstring("quantize.linear.float8.emulate"));
}

TEST_CASE("a torchtitan file is told once which defaults differ, and which of its keys have no effect") {
  const JobConfig config = load_text(kFiles[4].text + "training.dataloader.num_workers = 4\n");
  CHECK(notes_hold(config, "without effect: training.dataloader.num_workers (a thread of each rank"));
  CHECK(
      notes_hold(config, "parallelism.expert_parallel_comm_backend = \"static\" (torchtitan: \"standard\")"));
  CHECK_FALSE(notes_hold(config, "activation_checkpoint.mode = "));  // the file sets it
  CHECK_FALSE(notes_hold(config, "validation.steps"));               // the section is off
  CHECK_FALSE(notes_hold(config, "filter_fqns ("));                  // torchtitan does not read it either
  CHECK(rondo::load_config({}).notes.empty());
}

TEST_CASE("no value of a section that is switched off is refused, and it is told instead") {
  for (const std::string text :
       {"checkpoint.async_mode = \"async_with_pinned_mem\"\n", "checkpoint.keep_latest_k = 1\n",
        "checkpoint.load_only = true\n", "profiling.profiler_active = 0\n",
        "validation.dataset = \"elsewhere\"\n", "validation.steps = 0\n"}) {
    INFO(text);
    CHECK(message_of(text).empty());
    CHECK(
        message_of("checkpoint.enable = true\nvalidation.enable = true\nprofiling.enable_profiling = true\n" +
                   text)
            .empty() == (text == "checkpoint.load_only = true\n"));
  }
  CHECK(notes_hold(load_text("checkpoint.load_only = true\n"),
                   "without effect because the section is switched off"));
  CHECK_THAT(message_of("checkpoint.enable = 3\n"), ContainsSubstring("must be a boolean"));
  CHECK_THAT(message_of("checkpoint.intervall = 3\n"), ContainsSubstring("unknown key"));
}

TEST_CASE("a data set is a path, a name with a path, or a name whose data lies in data/") {
  const auto path = [](const std::string& text) { return training_path(load_text(text)); };
  const std::string named = "training.datasets = [\"c4=/data/c4\", \"ours=/data/ours.tokens\"]\n";
  CHECK(path("") == "data/corpus");
  CHECK(path("training.dataset = \"c4\"\n") == "data/c4");
  CHECK(path("training.dataset = \"c4\"\n" + named) == "/data/c4");
  CHECK(path("training.dataset = \"ours\"\n" + named) == "/data/ours.tokens");
  CHECK(path("training.dataset = \"c4\"\ntraining.dataset_path = \"/here\"\n" + named) == "/here");
  CHECK_THAT(message_of("training.dataset = \"c5\"\n"),
             ContainsSubstring("no such data set (did you mean c4?)"));
  CHECK(validation_path(load_text("validation.enable = true\n")).empty());
  CHECK(validation_path(load_text("validation.enable = true\nvalidation.dataset = \"c4_validation\"\n")) ==
        "data/c4_validation");
  try {
    require_datasets(load_text("training.dataset = \"c4\"\n"));
    FAIL("no error");
  } catch (const rondo::Error& error) {
    CHECK(error.code() == rondo::ExitCode::data);
    CHECK_THAT(error.what(), ContainsSubstring("rondo data tokenize"));
  }
}

TEST_CASE("a validation reads its data once, and with validation.steps = -1 all of it") {
  JobConfig config =
      load_text("validation.enable = true\nvalidation.steps = -1\nvalidation.local_batch_size = 4\n");
  const rondo::Layout layout = resolve_layout(config, 3);
  CHECK(validation_steps(config, layout, 100) == 9);
  CHECK((validation_steps(config, layout, 96) == 8 && validation_steps(config, layout, 11) == 1));
  config.validation.steps = 5;
  CHECK(validation_steps(config, layout, 100) == 5);
  CHECK(validation_steps(config, layout, 30) == 3);
}

TEST_CASE("the flags of torchtitan's own runs with context parallelism give their layouts") {
  struct Flavor {
    const char* config;
    std::vector<std::string> degrees;
    std::int64_t ranks;
    const char* layout;
  };
  const Flavor flavors[] = {
      {"llama3_debug", {"context_parallel_degree=4", "context_parallel_rotate_method=allgather"}, 4, "cp 4"},
      {"llama3_debug", {"context_parallel_degree=4", "context_parallel_rotate_method=alltoall"}, 4, "cp 4"},
      {"llama3_debug", {"data_parallel_shard_degree=2", "context_parallel_degree=2"}, 4, "dp_shard 2 x cp 2"},
      {"llama3_debug",
       {"data_parallel_shard_degree=1", "data_parallel_replicate_degree=2", "context_parallel_degree=2"},
       4,
       "dp_replicate 2 x cp 2"},
      {"llama3_debug",
       {"data_parallel_shard_degree=2", "data_parallel_replicate_degree=2", "context_parallel_degree=2"},
       8,
       "dp_replicate 2 x dp_shard 2 x cp 2"},
      {"llama3_debug",
       {"data_parallel_shard_degree=2", "tensor_parallel_degree=2", "context_parallel_degree=2"},
       8,
       "dp_shard 2 x cp 2 x tp 2"},
      {"deepseek_v3_debug",
       {"data_parallel_shard_degree=2", "tensor_parallel_degree=2", "context_parallel_degree=2",
        "expert_parallel_degree=4"},
       8,
       "dp_shard 2 x cp 2 x tp 2, experts efsdp 2 x ep 4"},
      {"deepseek_v3_debug",
       {"data_parallel_shard_degree=2", "tensor_parallel_degree=2", "context_parallel_degree=2",
        "expert_parallel_degree=2", "expert_tensor_parallel_degree=2"},
       8,
       "dp_shard 2 x cp 2 x tp 2, experts efsdp 2 x ep 2 x etp 2"}};
  for (const Flavor& flavor : flavors) {
    std::vector<std::string> flags = {"--job.config_file=" RONDO_SOURCE_DIR "/configs/" +
                                      std::string(flavor.config) + ".toml"};
    for (const std::string& degree : flavor.degrees) flags.push_back("--parallelism." + degree);
    CHECK(resolve_layout(rondo::load_config(flags), flavor.ranks).mesh.text() == flavor.layout);
  }
}

TEST_CASE("a file of torchtitan is told where its flavor keeps documents apart") {
  const std::string deepseek = "training.dataloader.num_workers = 2\nmodel.name = \"deepseek_v3\"\n";
  const auto config = load_text(deepseek + "model.flavor = \"16B\"\n");
  CHECK(notes_hold(config, "document_attention = false (torchtitan's 16B: true)"));
  CHECK_FALSE(notes_hold(load_text(deepseek), "document_attention"));  // of the debug model
}

TEST_CASE("what torchtitan only runs slower, or ends late, is accepted and told") {
  CHECK(notes_hold(load_text("optimizer.implementation = \"foreach\"\n"), "the numbers are the same"));
  CHECK_FALSE(notes_hold(load_text("optimizer.implementation = \"fused_opt_states_bf16\"\n"), "the numbers"));
  CHECK(notes_hold(load_text("training.steps = 1\n"), "lr_scheduler.warmup_steps = 200 is longer than"));
  CHECK_FALSE(notes_hold(load_text("training.steps = 200\n"), "warmup_steps"));
  CHECK_THAT(message_of("model.flavor = \"8B_flex\"\n"),
             ContainsSubstring("training.document_attention = true"));
}

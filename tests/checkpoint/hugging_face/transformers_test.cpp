// Tests that transformers loads our folders, and we load its folders: nothing missing, nothing
// unexpected, every number equal.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/rondo/run_program.h"
#include "checkpoint/hugging_face/folder_writer.h"
#include "models/llama3/llama3.h"
#include "models/parts/decoder.h"
#include "models/qwen3/qwen3.h"
#include "tests/datasets/temp_folder.h"
#include "tests/datasets/tokenizer/small_tokenizer.h"

namespace rondo::hugging_face {
namespace {

using safetensors::Dtype;

const std::string kPython = std::string(RONDO_SOURCE_DIR) + "/scripts/oracle_python.sh";

// Loads each folder as a user does, compares every weight with its expected value, computes logits,
// and saves the model again, in small shards.
constexpr const char* kLoadAndSave = R"(
import json, os, sys
os.environ['HF_HUB_OFFLINE'] = '1'
import torch
from transformers import AutoModelForCausalLM
for folder in sys.argv[1:]:
    names = json.load(open(folder + '.names'))
    model, report = AutoModelForCausalLM.from_pretrained(folder, dtype='auto', output_loading_info=True)
    for what in ('missing_keys', 'unexpected_keys', 'mismatched_keys', 'error_msgs'):
        assert not report.get(what), (folder, what, report[what])
    state, config = model.state_dict(), model.config
    assert str(next(iter(state.values())).dtype) == 'torch.' + names['dtype'], model.dtype
    for p, name in enumerate(names['names']):
        index = torch.arange(state[name].numel())
        wanted = ((index * 37 + p * 11) % 255 - 127) / 64
        assert torch.equal(state[name].float(), wanted.reshape(state[name].shape)), (folder, name)
    extra = set(state) - set(names['names'])
    assert extra == ({'lm_head.weight'} if config.tie_word_embeddings else set()), extra
    assert (config.bos_token_id, config.eos_token_id) == (names['bos'], names['eos']), config
    assert model.generation_config.eos_token_id == names['eos'], model.generation_config
    rope = config.rope_parameters
    assert (rope['rope_type'], rope['rope_theta']) == (names['rope_type'], names['rope_theta']), rope
    logits = model(torch.tensor([[1, 2, 3]])).logits
    assert logits.shape == (1, 3, config.vocab_size) and logits.isfinite().all()
    model.save_pretrained(folder + '.again', max_shard_size='20KB')
print('the same')
)";

// Prints ids of a text as AutoTokenizer and as the package of tokenizer.json give them.
constexpr const char* kTokenize = R"(
import os, sys
os.environ['HF_HUB_OFFLINE'] = '1'
from tokenizers import Tokenizer
from transformers import AutoTokenizer
text = '12 12 hello'
print(AutoTokenizer.from_pretrained(sys.argv[1])(text)['input_ids'])
print(Tokenizer.from_file(sys.argv[1] + '/tokenizer.json').encode(text).ids)
)";

bool have_transformers() {
  return run_program({kPython, "-c", "import transformers"}, 120'000).exit_code == 0;
}

// The expected value of a weight, as in kLoadAndSave; exact in all three dtypes.
float value_of(std::size_t parameter, std::uint64_t element) {
  return static_cast<float>(static_cast<int>((element * 37 + parameter * 11) % 255) - 127) / 64.0f;
}

// In fp32 or bf16 (the upper half of fp32, exact for these values).
std::string bytes_of(float value, Dtype dtype) {
  char bytes[4];
  std::memcpy(bytes, &value, 4);
  return dtype == Dtype::bf16 ? std::string(bytes + 2, 2) : std::string(bytes, 4);
}

std::uint64_t elements_of(const Parameter& parameter) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : parameter.shape) elements *= static_cast<std::uint64_t>(size);
  return elements;
}

template <class Config>
ModelConfig config_of(const Config& sizes, const std::string& dtype, const TokenIds& tokens) {
  FieldValues values;
  for (const Field& field : Config::fields()) values[field.name] = field.get(&sizes);
  return {Config::kName, values, dtype, tokens};
}

void fill(FolderWriter& writer, const std::vector<Parameter>& parameters) {
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    std::string bytes;
    for (std::uint64_t i = 0; i < elements_of(parameters[p]); ++i)
      bytes += bytes_of(value_of(p, i), writer.dtype());
    writer.write(parameters[p].name, 0, std::as_bytes(std::span(bytes)));
  }
  writer.finish();
}

void write_model(const std::string& folder, const ModelConfig& config, std::uint64_t max_shard_bytes) {
  const auto sizes = from_values<Llama3Config>(config.sizes);
  const std::vector<Parameter> parameters = parameters_of(*make_decoder(sizes));
  FolderWriter writer(folder, config, parameters, {.max_shard_bytes = max_shard_bytes});
  fill(writer, parameters);
  nlohmann::json names = nlohmann::json::array();
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  const nlohmann::json eos =
      config.tokens.eos.empty() ? nlohmann::json() : nlohmann::json(config.tokens.eos[0]);
  const nlohmann::json bos = config.tokens.bos ? nlohmann::json(*config.tokens.bos) : nlohmann::json();
  const bool scaled = sizes.rope_scaling_factor != 1;
  std::ofstream(folder + ".names") << nlohmann::json{{"names", names},
                                                     {"dtype", config.dtype},
                                                     {"bos", bos},
                                                     {"eos", eos},
                                                     {"rope_type", scaled ? "llama3" : "default"},
                                                     {"rope_theta", sizes.rope_theta}};
}

void check_read_back(const std::string& folder, const ModelConfig& config) {
  INFO(folder);
  const Folder read(folder);
  CHECK(read.warnings().empty());
  CHECK(read.config().dtype == config.dtype);
  CHECK(read.config().tokens == config.tokens);
  const auto model = make_decoder(from_values<Llama3Config>(read.config().sizes));
  const auto original = make_decoder(from_values<Llama3Config>(config.sizes));
  const std::vector<Parameter> parameters = parameters_of(*original);
  REQUIRE(parameters_of(*model).size() == parameters.size());
  read.check(parameters);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    INFO(parameters[p].name);
    const StoredTensor stored = read.find(parameters[p].name);
    std::string expected;
    for (std::uint64_t i = 0; i < elements_of(parameters[p]); ++i)
      expected += bytes_of(value_of(p, i), stored.dtype());
    const auto bytes = stored.elements(0, elements_of(parameters[p]));
    REQUIRE(bytes.size() == expected.size());
    CHECK(std::memcmp(bytes.data(), expected.data(), expected.size()) == 0);
  }
}

// Writes FOLDER/out, a small Qwen3 with the tokenizer of FOLDER/tokenizer.
void write_qwen3(const TempFolder& folder) {
  Qwen3Config sizes;
  sizes.dim = 16, sizes.n_layers = 1, sizes.n_heads = 2, sizes.n_kv_heads = 1, sizes.vocab_size = 264;
  sizes.ffn_hidden_dim = 32;
  const std::vector<Parameter> parameters = parameters_of(*make_decoder(sizes));
  FolderWriter writer(folder.path("out"), config_of(sizes, "bfloat16", {}), parameters,
                      {.tokenizer = folder.path("tokenizer")});
  fill(writer, parameters);
}

}  // namespace

TEST_CASE("every parameter of Llama has its Hugging Face name") {
  Llama3Config sizes;
  sizes.n_layers = 2;
  const auto parameters = parameters_of(*make_decoder(sizes));
  REQUIRE(parameters.size() == 21);
  CHECK(parameters[0].name == "model.embed_tokens.weight");
  CHECK(parameters[10].name == "model.layers.1.input_layernorm.weight");
  CHECK(parameters[11].name == "model.layers.1.self_attn.q_proj.weight");
  CHECK(parameters[16].name == "model.layers.1.mlp.gate_proj.weight");
  CHECK(parameters[19].name == "model.norm.weight");
  CHECK(parameters[20].name == "lm_head.weight");
  sizes.tie_embeddings = true;
  CHECK(make_decoder(sizes)->parameters().size() == 20);
}

TEST_CASE("transformers loads our folders without additions, and we read what it saves") {
  if (!have_transformers()) SKIP("no Python with transformers; scripts/setup.sh --oracles installs it");
  const TempFolder folder;
  Llama3Config sizes;
  sizes.dim = 48, sizes.n_layers = 2, sizes.n_heads = 4, sizes.n_kv_heads = 2, sizes.vocab_size = 131;
  sizes.ffn_hidden_dim = 80, sizes.max_seq_len = 256, sizes.rope_original_max_seq_len = 64;
  const ModelConfig scaled = config_of(sizes, "bfloat16", {1, {}, {2}});
  write_model(folder.path("scaled_in_shards"), scaled, 20'000);
  sizes.head_dim = 10, sizes.tie_embeddings = true, sizes.rope_scaling_factor = 1, sizes.rope_theta = 10000;
  const ModelConfig tied = config_of(sizes, "float32", {});
  write_model(folder.path("tied_in_one_file"), tied, 5'000'000'000);

  const ProgramResult result = run_program(
      {kPython, "-c", kLoadAndSave, folder.path("scaled_in_shards"), folder.path("tied_in_one_file")},
      300'000);
  CAPTURE(result.output);
  REQUIRE(result.exit_code == 0);
  CHECK(result.output.find("the same\n") != std::string::npos);
  check_read_back(folder.path("scaled_in_shards"), scaled);
  check_read_back(folder.path("scaled_in_shards.again"), scaled);
  check_read_back(folder.path("tied_in_one_file"), tied);
  check_read_back(folder.path("tied_in_one_file.again"), tied);
}

TEST_CASE("an exported tokenizer_config.json has what transformers 4 needs to leave the tokenizer as it is") {
  const TempFolder folder;
  folder.write("tokenizer/tokenizer.json",
               R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true}})");
  folder.write("tokenizer/tokenizer_config.json",
               R"({"tokenizer_class": "TokenizersBackend", "from_slow": true, "add_prefix_space": false,
                   "eos_token": "</s>", "extra_special_tokens": ["<a>", "<b>"]})");
  write_qwen3(folder);
  std::ifstream in(folder.path("out/tokenizer_config.json"));
  CHECK(nlohmann::json::parse(in) == nlohmann::json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                                    {"add_prefix_space", true},
                                                    {"eos_token", "</s>"},
                                                    {"additional_special_tokens", {"<a>", "<b>"}}});
}

// Qwen's own pattern takes digits one by one.
TEST_CASE("AutoTokenizer gives an export of Qwen3 the ids of its tokenizer.json") {
  if (!have_transformers()) SKIP("no Python with transformers; scripts/setup.sh --oracles installs it");
  const TempFolder folder;
  nlohmann::json tokenizer = small_tokenizer();
  tokenizer["model"]["vocab"]["12"] = 262;
  tokenizer["model"]["merges"].push_back("1 2");
  for (const char* stage : {"pre_tokenizer", "decoder"})
    tokenizer[stage] = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  folder.write("tokenizer/tokenizer.json", tokenizer.dump());
  if (GENERATE(false, true))
    folder.write("tokenizer/tokenizer_config.json",
                 R"({"eos_token": "<|end|>", "tokenizer_class": "TokenizersBackend",
                     "extra_special_tokens": ["<|end|>"]})");
  write_qwen3(folder);
  const ProgramResult result = run_program({kPython, "-c", kTokenize, folder.path("out")}, 120'000);
  INFO(result.output);
  REQUIRE(result.exit_code == 0);
  const std::string ids = "[262, 32, 262, 32, 259]";
  CHECK(result.output.find(ids + "\n" + ids + "\n") != std::string::npos);
}

}  // namespace rondo::hugging_face

#include "checkpoint/hugging_face/config.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "config/load.h"
#include "models/llama3/llama3.h"
#include "tests/checkpoint/safetensors/texts.h"

namespace rondo::hugging_face {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using Json = nlohmann::json;
using safetensors::error_of;

// The file that transformers 4 wrote for the published 8B model of Llama 3.1.
Json published_8b() {
  return Json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu",
    "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
    "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "transformers_version": "4.42.3", "use_cache": true, "vocab_size": 128256})");
}

ReadConfig parse(const Json& object) { return parse_config(object.dump(), "config.json"); }
Llama3Config llama_of(const ReadConfig& read) { return from_values<Llama3Config>(read.config.sizes); }

// Returns the error for the published file after `change`.
template <class Change>
std::string problem_after(const Change& change) {
  Json object = published_8b();
  change(object);
  return error_of([&] { parse(object); });
}

std::string problem_with(const char* field, const Json& value) {
  return problem_after([&](Json& object) { object[field] = value; });
}

void check_same(const Llama3Config& a, const Llama3Config& b) {
  CHECK(a.head_width() == b.head_width());
  CHECK(a.ffn_width() == b.ffn_width());
  for (const Field& field : Llama3Config::fields()) {
    INFO(field.name);
    const bool given_as_width = field.name == "ffn_dim_multiplier" || field.name == "multiple_of" ||
                                field.name == "ffn_hidden_dim" || field.name == "head_dim";
    if (!given_as_width) CHECK(field.get(&a) == field.get(&b));
  }
}

}  // namespace

TEST_CASE("the published configuration of Llama 3.1 8B is read") {
  const ReadConfig read = parse(published_8b());
  CHECK(read.warnings.empty());
  CHECK(read.config.model == "llama3");
  CHECK(read.config.dtype == "bfloat16");
  CHECK(read.config.tokens == TokenIds{128000, {}, {128001, 128008, 128009}});
  check_same(llama_of(read), from_values<Llama3Config>(load_config({"--model.flavor=8B"}).model.sizes));
}

TEST_CASE("rope_parameters of transformers 5 is read") {
  Json object = published_8b();
  object.erase("rope_theta");
  object.erase("torch_dtype");
  object["rope_parameters"] = object["rope_scaling"];
  object["rope_parameters"]["rope_theta"] = 500000;
  object["rope_scaling"] = nullptr;
  object["dtype"] = "float32";
  object["head_dim"] = 128;
  const ReadConfig read = parse(object);
  CHECK(read.warnings.empty());
  CHECK(read.config.dtype == "float32");
  check_same(llama_of(read), llama_of(parse(published_8b())));
}

TEST_CASE("missing fields have the defaults of transformers") {
  Json object = published_8b();
  for (const char* name :
       {"num_key_value_heads", "rms_norm_eps", "max_position_embeddings", "rope_theta", "rope_scaling",
        "tie_word_embeddings", "torch_dtype", "bos_token_id", "eos_token_id", "hidden_act", "architectures"})
    object.erase(name);
  const ReadConfig read = parse(object);
  const Llama3Config config = llama_of(read);
  CHECK(config.n_kv_heads == 32);
  CHECK(config.norm_eps == 1e-6);
  CHECK(config.max_seq_len == 2048);
  CHECK(config.rope_theta == 10000.0);
  CHECK(config.rope_scaling_factor == 1.0);
  CHECK_FALSE(config.tie_embeddings);
  CHECK(read.config.dtype.empty());
  CHECK(read.config.tokens == TokenIds{});
}

TEST_CASE("the configuration of every flavor is read back as written") {
  for (const char* flavor : {"debugmodel", "1B", "3B", "8B", "70B", "405B"}) {
    INFO(flavor);
    const JobConfig job = load_config({std::string("--model.flavor=") + flavor});
    const ModelConfig config{"llama3", job.model.sizes, "bfloat16", {1, 0, {2, 3}}};
    const ReadConfig read = parse_config(config_json(config), "config.json");
    CHECK(read.warnings.empty());
    CHECK(read.config.model == "llama3");
    CHECK(read.config.dtype == "bfloat16");
    CHECK(read.config.tokens == config.tokens);
    check_same(llama_of(read), from_values<Llama3Config>(job.model.sizes));
  }
}

TEST_CASE("custom sizes, no scaling and tied heads are written and read back") {
  Llama3Config sizes;
  sizes.dim = 50, sizes.n_heads = 3, sizes.n_kv_heads = 1, sizes.head_dim = 6, sizes.ffn_hidden_dim = 345;
  sizes.vocab_size = 131, sizes.rope_scaling_factor = 1, sizes.rope_theta = 1e6, sizes.norm_eps = 1e-6;
  sizes.tie_embeddings = true;
  FieldValues values;
  for (const Field& field : Llama3Config::fields()) values[field.name] = field.get(&sizes);
  const std::string text = config_json({"llama3", values, "float16", {}});
  const ReadConfig read = parse_config(text, "config.json");
  CHECK(read.warnings.empty());
  check_same(llama_of(read), sizes);
  const Json written = Json::parse(text);
  CHECK(written["head_dim"] == 6);
  CHECK(written["rope_scaling"] == nullptr);
  CHECK(written["bos_token_id"] == nullptr);
  CHECK(written["architectures"] == Json::array({"LlamaForCausalLM"}));
}

TEST_CASE("generation_config.json says how a text begins and ends") {
  CHECK(Json::parse(generation_config_json({})) == Json::object());
  CHECK(Json::parse(generation_config_json({5, {}, {6}})) == Json{{"bos_token_id", 5}, {"eos_token_id", 6}});
  CHECK(Json::parse(generation_config_json({{}, 7, {1, 2}})) ==
        Json{{"pad_token_id", 7}, {"eos_token_id", {1, 2}}});
}

TEST_CASE("unsupported features are refused by field and value") {
  const auto refused = [](const char* field, const Json& value, const std::string& message) {
    INFO(field);
    CHECK_THAT(problem_with(field, value), ContainsSubstring(message));
  };
  refused(
      "attention_bias", true,
      "config.json: this model cannot be taken:\n  attention_bias = true: a bias in attention is not in this "
      "version; the only value is false");
  refused("mlp_bias", true, "mlp_bias = true: a bias in the feed-forward is not in this version");
  refused("hidden_act", "gelu",
          "hidden_act = \"gelu\": another activation is not in this version; the only "
          "value is \"silu\"");
  refused("attention_dropout", 0.1, "attention_dropout = 0.1: dropout is not in this version");
  refused("sliding_window", 4096, "sliding_window = 4096: a sliding window is not in this version");
  refused("use_sliding_window", true, "use_sliding_window = true");
  refused("partial_rotary_factor", 0.5, "partial_rotary_factor = 0.5: a rotation of a part of each head");
  refused("add_cross_attention", true, "add_cross_attention = true");
  refused("is_encoder_decoder", true, "is_encoder_decoder = true");
  refused("layer_types", {"full_attention", "sliding_attention"}, "layer_types[1] = \"sliding_attention\"");
  refused("quantization_config", {{"quant_method", "awq"}},
          "quantization_config.quant_method = \"awq\": not in this version; \"fp8\" and \"mxfp4\" are");
  refused("compression_config", {{"a", 1}}, "compressed weights are not in this version");
  refused("torch_dtype", "float8_e4m3fn", "dtype = \"float8_e4m3fn\": not in this version");
  refused(
      "model_type", "mistral",
      "model_type = \"mistral\": not in this version; \"llama\", \"deepseek_v3\", \"qwen3\", \"qwen3_moe\", "
      "\"olmo2\", \"gpt_oss\", \"llama4_text\" are");
  refused("architectures", {"LlamaForSequenceClassification"},
          "architectures = [\"LlamaForSequenceClassification\"]: not in this version");
}

TEST_CASE("other rotations are refused") {
  const auto refused = [](const Json& rope, const std::string& message) {
    INFO(rope.dump());
    CHECK_THAT(problem_with("rope_scaling", rope), ContainsSubstring(message));
  };
  refused({{"rope_type", "yarn"}, {"factor", 4.0}},
          "rope_scaling.rope_type = \"yarn\": not in this version; default and llama3 are");
  refused({{"type", "linear"}, {"factor", 4.0}}, "rope_scaling.type = \"linear\"");
  refused(
      {{"type", "linear"}, {"rope_type", "default"}},
      "rope_scaling.rope_type = \"default\": must be the same as type = \"linear\"; remove the wrong one");
  refused({{"factor", 4.0}}, "rope_scaling.rope_type is missing");
  refused({{"rope_type", "llama3"}, {"factor", 8.0}}, "rope_scaling.low_freq_factor is missing");
  refused({{"rope_type", "default"}, {"mscale", 2}}, "rope_scaling.mscale = 2: no field of this rope_type");
  refused("llama3", "rope_scaling = \"llama3\": must be an object");
  CHECK_THAT(problem_after([](Json& object) {
               object["rope_scaling"]["factor"] = 0.5;
               object["rope_scaling"]["partial_rotary_factor"] = 0.25;
             }),
             ContainsSubstring("rope_scaling.factor = 0.5: must be at least 1") &&
                 ContainsSubstring("rope_scaling.partial_rotary_factor = 0.25"));
}

TEST_CASE("two spellings of the rotation are accepted when they are equal after defaults") {
  Json object = published_8b();
  object["rope_parameters"] = object["rope_scaling"];
  object["rope_parameters"]["rope_theta"] = 500000;
  object["rope_parameters"]["attention_factor"] = nullptr;
  CHECK(parse(object).config.sizes == parse(published_8b()).config.sizes);
  Json plain = published_8b();
  plain["rope_scaling"] = nullptr;
  const ReadConfig expected = parse(plain);
  plain["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  plain["rope_scaling"] = {{"rope_type", "default"}};
  CHECK(parse(plain).config.sizes == expected.config.sizes);
}

TEST_CASE("two spellings of the rotation that differ are refused with both values") {
  Json newer = published_8b()["rope_scaling"];
  newer["rope_theta"] = 10000.0;
  newer["factor"] = 4;
  const std::string problem = problem_with("rope_parameters", newer);
  CHECK_THAT(problem,
             ContainsSubstring("\n  rope_parameters.rope_theta = 10000.0: must be rope_theta = 500000.0; "
                               "remove the wrong one") &&
                 ContainsSubstring("\n  rope_parameters.factor = 4.0: must be rope_scaling.factor = "
                                   "8.0; remove the wrong one"));
  CHECK(problem_with("rope_parameters", {{"rope_type", "default"}}) ==
        "config.json: this model cannot be taken:\n  rope_parameters.factor = 1.0: must be "
        "rope_scaling.factor = 8.0; remove the wrong one");
}

TEST_CASE("all problems of a file are reported together") {
  const std::string problem = problem_after([](Json& object) {
    object.erase("vocab_size");
    object["hidden_size"] = "wide";
    object["num_hidden_layers"] = 0;
    object["num_attention_heads"] = 18446744073709551615u;
    object["rms_norm_eps"] = -1e-5;
    object["tie_word_embeddings"] = 1;
    object["eos_token_id"] = {128001, "end"};
    object["bos_token_id"] = 1.5;
  });
  for (const char* part :
       {"vocab_size is missing", "hidden_size = \"wide\": must be an integer",
        "num_hidden_layers = 0: must be at least 1",
        "num_attention_heads = 18446744073709551615: must be an integer",
        "rms_norm_eps = -1e-05: must be more than 0", "tie_word_embeddings = 1: must be a boolean",
        "eos_token_id[1] = \"end\": must be a token id", "bos_token_id = 1.5: must be a token id"})
    CHECK_THAT(problem, ContainsSubstring(part));
}

TEST_CASE("inconsistent sizes are refused with the rule") {
  CHECK_THAT(problem_with("num_key_value_heads", 5),
             ContainsSubstring("num_key_value_heads = 5: model.n_kv_heads must divide model.n_heads"));
  CHECK_THAT(problem_with("head_dim", 7), ContainsSubstring("head_dim = 7: model.head_dim must be even"));
}

TEST_CASE("unknown fields are warnings, and notes of the library are not") {
  Json object = published_8b();
  object["_name_or_path"] = "somewhere";
  object["new_norm"] = "double";
  const ReadConfig read = parse(object);
  CHECK(read.warnings ==
        std::vector<std::string>{"config.json: new_norm = \"double\" is not known here and changes nothing"});
  for (int i = 0; i < 100; ++i) object["new_" + std::to_string(i)] = i;
  CHECK(parse(object).warnings.size() == 21);
  CHECK(parse(object).warnings.back() == "config.json: 81 more fields are not known here and change nothing");
}

TEST_CASE("a file that is not a JSON object is refused with its path") {
  const auto problem = [](const std::string& text) {
    return error_of([&] { parse_config(text, "config.json"); });
  };
  const auto must_say = [&](const std::string& text, const std::string& rule) {
    CHECK_THAT(problem(text), StartsWith("config.json" + rule) && EndsWith("; fetch or write it again"));
  };
  must_say("{\"a\": }", ": is not JSON: parse error at line 1, column 7");
  must_say("[]", " = []: must be an object");
  must_say("{\"a\": 1e999}", ": is not JSON: number overflow parsing '1e999'");
  must_say(std::string("{}\0", 3), ": is not JSON: it has a NUL");
  CHECK(problem("{}") == "config.json: this model cannot be taken:\n  model_type is missing");
  for (const char* hub : {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B/config.json"})
    CHECK_THAT(
        error_of([&] { read_config(hub); }),
        ContainsSubstring("Qwen/Qwen3-0.6B: no such file or folder; nothing is fetched from the Hugging "
                          "Face Hub: `hf download Qwen/Qwen3-0.6B --local-dir Qwen/Qwen3-0.6B`"));
  CHECK_THAT(error_of([] { read_config("/no/such/config.json"); }),
             ContainsSubstring("cannot open /no/such/config.json: No such file or directory"));
}

TEST_CASE("a model that transformers lacks is not exported") {
  CHECK(error_of([] {
          config_json({"mine", {}, "", {}});
        }) ==
        "model.name = \"mine\" has no Hugging Face form in this version; llama3, deepseek_v3, qwen3, "
        "qwen3_moe, olmo2, gpt_oss, llama4 have");
}

}  // namespace rondo::hugging_face

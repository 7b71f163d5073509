#include "checkpoint/hugging_face/folder.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/hugging_face/folder_files.h"
#include "checkpoint/hugging_face/folder_writer.h"
#include "config/load.h"
#include "models/llama3/llama3.h"
#include "tests/checkpoint/safetensors/texts.h"
#include "tests/datasets/temp_folder.h"

namespace rondo::hugging_face {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;
using safetensors::as_span;
using safetensors::contents_of;
using safetensors::Dtype;
using safetensors::error_of;
using safetensors::tensor;
using safetensors::write_numbers;
using safetensors::write_tensors;

ModelConfig small_config(const std::string& dtype = "float32") {
  FieldValues values;
  const Llama3Config sizes;
  for (const Field& field : Llama3Config::fields()) values[field.name] = field.get(&sizes);
  return {"llama3", values, dtype, {}};
}

constexpr const char* kOtherModel =
    "config.json describes another model than the weights; correct it, or name the folder of its weights";
const std::vector<Parameter> kParameters = {{"a", {2, 3}}, {"b", {4}}, {"c", {1, 2}}};

// Writes bytes 'a', 'b', ... for each parameter, in pieces from the end to the beginning.
void fill(FolderWriter& writer, const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : parameters) {
    std::uint64_t elements = 1;
    for (const std::int64_t size : parameter.shape) elements *= static_cast<std::uint64_t>(size);
    for (std::uint64_t element = elements; element > 0; --element)
      writer.write(parameter.name, element - 1,
                   as_span(std::string(safetensors::dtype_bytes(writer.dtype()),
                                       static_cast<char>(parameter.name[0] + element - 1))));
  }
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A folder with only a config.json.
TempFolder& with_config(TempFolder& folder) {
  folder.write(kConfig, config_json(small_config()));
  return folder;
}

}  // namespace

TEST_CASE("weights in one file are written and read back, in any range") {
  const TempFolder folder;
  const std::string out = folder.path("out");
  FolderWriter writer(out + "/", small_config(), kParameters);
  fill(writer, kParameters);
  CHECK_FALSE(fs::exists(out));
  writer.finish();
  CHECK(names_in(folder.path()) == std::vector<std::string>{"out"});
  CHECK(names_in(out) == std::vector<std::string>{kConfig, kGenerationConfig, kWeights});

  const Folder read(out);
  CHECK(read.warnings().empty());
  CHECK(read.config().model == "llama3");
  read.check(kParameters);
  const StoredTensor b = read.find("b");
  CHECK(b.dtype() == Dtype::f32);
  CHECK(text_of(b.elements(0, 4)) == "bbbbccccddddeeee");
  CHECK(text_of(b.elements(1, 3)) == "ccccdddd");
  CHECK(b.file->metadata() == safetensors::Metadata{{"format", "pt"}});
  CHECK_THAT(error_of([&] { read.find("z"); }, ExitCode::internal), ContainsSubstring("no tensor \"z\""));
}

TEST_CASE("a tokenizer that is not a tokenizer.json is copied with its class and its Python files") {
  const TempFolder folder;
  const std::string config = R"({"tokenizer_class": "TikTokenTokenizer", "auto_map": {}})";
  folder.write("tokenizer/tiktoken.model", "YQ== 0\n");
  folder.write("tokenizer/tokenizer_config.json", config);
  folder.write("tokenizer/tokenization_kimi.py", "import tiktoken");
  folder.write("tokenizer/README.md", "not taken");
  const fs::path out = folder.path("out");
  FolderWriter writer(out, small_config(), kParameters, {.tokenizer = folder.path("tokenizer")});
  fill(writer, kParameters);
  writer.finish();
  CHECK(names_in(out) == std::vector<std::string>{kConfig, kGenerationConfig, kWeights, "tiktoken.model",
                                                  "tokenization_kimi.py", "tokenizer_config.json"});
  CHECK(contents_of(out / "tokenizer_config.json") == config);
}

TEST_CASE("weights beyond the size of a shard are split, and the index names the shard of each") {
  const TempFolder folder;
  folder.write("tokenizer/tokenizer.json", std::string("{\"x\":\"\0\xff\"}", 10));
  folder.write("tokenizer/special_tokens_map.json", "{}");
  folder.write("tokenizer/README", "not taken");
  const fs::path out = folder.path("out");
  fs::create_directory(out);
  FolderWriter writer(out, small_config("bfloat16"), kParameters,
                      {.max_shard_bytes = 12, .tokenizer = folder.path("tokenizer")});
  fill(writer, kParameters);
  writer.finish();
  CHECK(names_in(out) ==
        std::vector<std::string>{kConfig, kGenerationConfig, "model-00001-of-00002.safetensors",
                                 "model-00002-of-00002.safetensors", kIndex, "special_tokens_map.json",
                                 "tokenizer.json", "tokenizer_config.json"});
  CHECK(contents_of(out / "tokenizer.json") == contents_of(folder.path("tokenizer/tokenizer.json")));
  const Json index = Json::parse(contents_of(out / kIndex));
  CHECK(index["metadata"]["total_size"] == 24);
  CHECK(index["weight_map"]["a"] == "model-00001-of-00002.safetensors");
  CHECK(index["weight_map"]["b"] == "model-00002-of-00002.safetensors");
  CHECK(index["weight_map"]["c"] == "model-00002-of-00002.safetensors");

  Folder opened(out);
  const Folder read = std::move(opened);
  read.check(kParameters);
  CHECK(read.find("c").dtype() == Dtype::bf16);
  CHECK(text_of(read.find("c").elements(0, 2)) == "ccdd");
  CHECK(text_of(read.find("a").elements(5, 6)) == "ff");
}

TEST_CASE("a writer that does not finish leaves nothing, and a folder in use is not overwritten") {
  const TempFolder folder;
  {
    FolderWriter writer(folder.path("out"), small_config(), kParameters);
    CHECK_THAT(error_of([&] { writer.finish(); }, ExitCode::internal), ContainsSubstring("are missing"));
    CHECK_THAT(error_of([&] { writer.write("z", 0, {}); }, ExitCode::internal),
               ContainsSubstring("no parameter"));
    CHECK_THAT(error_of([&] { writer.write("a", std::uint64_t{1} << 62, {}); }, ExitCode::internal),
               ContainsSubstring("an element outside of \"a\""));
  }
  CHECK(names_in(folder.path()).empty());
  folder.write("out/old", "x");
  CHECK(error_of([&] { FolderWriter(folder.path("out"), small_config(), kParameters); }) ==
        folder.path("out") + ": exists and is not an empty folder; name a new one");
  CHECK_THAT(error_of([&] { FolderWriter(folder.path("no/out"), small_config(), kParameters); }),
             ContainsSubstring("cannot create " + folder.path("no/out") + ": No such file"));
  CHECK_THAT(error_of([&] {
               FolderWriter(folder.path("new"), {"mine", {}, "float32", {}}, kParameters);
             }),
             ContainsSubstring("has no Hugging Face form"));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"out"});
}

TEST_CASE("a matrix in 8 bits needs its scales, and excluded layers are accepted") {
  TempFolder folder;
  Json config = Json::parse(config_json(small_config()));
  config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  config["num_nextn_predict_layers"] = 1;
  folder.write(kConfig, config.dump());
  write_tensors(folder.path(kWeights),
                {tensor("a", Dtype::f8_e4m3, {129, 256}), tensor("a_scale_inv", Dtype::f32, {2, 2}),
                 tensor("b", Dtype::bf16, {4}), tensor("model.layers.6.enorm.weight", Dtype::f32, {8})});
  const Folder read(folder.path());
  CHECK(read.quantized());
  read.check(std::vector<Parameter>{{"a", {129, 256}}, {"b", {4}}});
  REQUIRE(read.find("a").scales != nullptr);
  CHECK(read.find("a").scales->info->name == "a_scale_inv");
  CHECK(read.find("b").scales == nullptr);
}

TEST_CASE("experts in 4 bits are found by their blocks and scales, which must be those of the parameter") {
  TempFolder folder;
  Json config = Json::parse(config_json(small_config()));
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  folder.write(kConfig, config.dump());
  const auto problems_of = [&](const std::vector<safetensors::TensorInfo>& tensors) {
    write_tensors(folder.path(kWeights), tensors);
    return error_of([&] {
      const Folder read(folder.path());
      read.check(std::vector<Parameter>{{"a", {2, 64, 6}}});
      CHECK(read.find("a").together() == 64 * 6);
    });
  };
  CHECK(problems_of({tensor("a_blocks", Dtype::u8, {2, 6, 2, 16}),
                     tensor("a_scales", Dtype::u8, {2, 6, 2})}) == "no error");
  CHECK_THAT(
      problems_of({tensor("a_blocks", Dtype::u8, {2, 6, 3, 16}), tensor("a_scales", Dtype::u8, {2, 6})}),
      ContainsSubstring("\"a_blocks\" is [2, 6, 3, 16] and must be [2, 6, 2, 16], \"a_scales\" is [2, 6] "
                        "and must be [2, 6, 2]"));
  CHECK_THAT(problems_of({tensor("a_blocks", Dtype::u8, {2, 6, 2, 16})}),
             ContainsSubstring("missing: \"a\"") && ContainsSubstring("unexpected: \"a_blocks\""));
  CHECK_THAT(
      problems_of({tensor("a_blocks", Dtype::u8, {2, 6, 2, 16}), tensor("a_scales", Dtype::f32, {2, 6, 2})}),
      ContainsSubstring("scales of a dtype that is not U8: \"a_scales\" is F32"));
  with_config(folder);
  CHECK_THAT(
      problems_of({tensor("a_blocks", Dtype::u8, {2, 6, 2, 16}), tensor("a_scales", Dtype::u8, {2, 6, 2})}),
      ContainsSubstring("unexpected: \"a_blocks\", \"a_scales\""));
}

TEST_CASE("tensors of a text model are found by their prefix, and tensors of images are not read") {
  TempFolder folder;
  Json config =
      Json::parse(config_json({"llama4", load_config({"--model.name=llama4"}).model.sizes, "float32", {}}));
  config.erase("architectures");
  folder.write(kConfig, Json{{"model_type", "llama4"}, {"text_config", config}}.dump());
  write_tensors(folder.path(kWeights), {tensor("language_model.a", Dtype::f32, {2}),
                                        tensor("multi_modal_projector.linear_1.weight", Dtype::f32, {3}),
                                        tensor("vision_model.class_embedding", Dtype::f32, {3})});
  const Folder read(folder.path());
  read.check(std::vector<Parameter>{{"a", {2}}});
  CHECK(read.find("a").info->name == "language_model.a");
  write_tensors(folder.path(kWeights),
                {tensor("a", Dtype::f32, {2}), tensor("language_model.a", Dtype::f32, {2})});
  CHECK_THAT(
      error_of([&] { Folder(folder.path()); }),
      ContainsSubstring("both \"a\" of model.safetensors and \"language_model.a\" of model.safetensors; "
                        "remove one of them"));
}

TEST_CASE("matrices in 8 bits that cannot be read are reported together") {
  TempFolder folder;
  Json config = Json::parse(config_json(small_config()));
  config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  folder.write(kConfig, config.dump());
  write_tensors(folder.path(kWeights),
                {tensor("alone", Dtype::f8_e4m3, {129, 5}), tensor("few", Dtype::f8_e4m3, {129, 5}),
                 tensor("few_scale_inv", Dtype::f32, {1, 1}), tensor("half", Dtype::f8_e4m3, {2, 2}),
                 tensor("half_scale_inv", Dtype::bf16, {1, 1}), tensor("plain", Dtype::bf16, {2, 2}),
                 tensor("plain_scale_inv", Dtype::f32, {1, 1}), tensor("row", Dtype::f8_e4m3, {2}),
                 tensor("wide", Dtype::f8_e5m2, {2, 2}), tensor("whose_scale_inv", Dtype::f32, {1, 1})});
  const std::vector<Parameter> parameters = {{"alone", {129, 5}}, {"few", {129, 5}}, {"half", {2, 2}},
                                             {"plain", {2, 2}},   {"row", {2}},      {"wide", {2, 2}}};
  const std::string problems =
      "  in 8 bits but not a matrix: \"row\" is F8_E4M3\n"
      "  missing: \"alone_scale_inv\"\n"
      "  of a dtype that is not F32, F16 or BF16: \"wide\" is F8_E5M2\n"
      "  of another shape: \"few_scale_inv\" is [1, 1] and must be [2, 1]\n"
      "  scales of a dtype that is not F32: \"half_scale_inv\" is BF16\n"
      "  scales of what is not F8_E4M3: \"plain_scale_inv\", where \"plain\" is BF16\n"
      "  unexpected: \"whose_scale_inv\"\n";
  const std::string first = folder.path() + ": the weights are not those of its model:\n";
  const std::string last = kOtherModel;
  CHECK(error_of([&] { Folder(folder.path()).check(parameters); }) == first + problems + last);
  with_config(folder);
  CHECK(error_of([&] { Folder(folder.path()).check(parameters); }) ==
        first + problems.substr(0, problems.find("  missing")) +
            "  in 8 bits, while config.json has no quantization_config: \"alone\" is F8_E4M3, \"few\" is "
            "F8_E4M3, "
            "\"half\" is F8_E4M3, \"row\" is F8_E4M3\n" +
            problems.substr(problems.find("  missing")) + last);
}

TEST_CASE("missing, unexpected, misshapen and quantized tensors are reported together") {
  TempFolder folder;
  write_tensors(
      with_config(folder).path(kWeights),
      {tensor("a", Dtype::f32, {3, 2}), tensor("b", Dtype::i8, {4}), tensor("extra", Dtype::f32, {1}),
       tensor("model.layers.0.self_attn.rotary_emb.inv_freq", Dtype::f32, {8})});
  CHECK(error_of([&] { Folder(folder.path()).check(kParameters); }) ==
        folder.path() +
            ": the weights are not those of its model:\n"
            "  missing: \"c\"\n"
            "  of a dtype that is not F32, F16 or BF16: \"b\" is I8\n"
            "  of another shape: \"a\" is [3, 2] and must be [2, 3]\n"
            "  unexpected: \"extra\"\n" +
            kOtherModel);
  std::vector<Parameter> many;
  for (int i = 0; i < 30; ++i) many.push_back({"p" + std::to_string(i), {1}});
  CHECK_THAT(error_of([&] { Folder(folder.path()).check(many); }), ContainsSubstring("\"p19\" and 10 more"));
}

TEST_CASE("an index cannot name files outside its folder") {
  TempFolder folder;
  with_config(folder);
  write_tensors(folder.path("w.safetensors"), {tensor("a", Dtype::f32, {1})});
  folder.write("below/w.safetensors", contents_of(folder.path("w.safetensors")));
  for (const std::string& name :
       {std::string("../w.safetensors"), std::string("/etc/w.safetensors"),
        std::string("below/w.safetensors"), std::string("..safetensors"), std::string("w.bin"),
        std::string("w\\w.safetensors"), std::string(), std::string("w\0.safetensors", 14),
        std::string(300, 'w') + ".safetensors"}) {
    INFO(name);
    folder.write(kIndex, Json{{"weight_map", {{"a", name}}}}.dump());
    CHECK_THAT(
        error_of([&] { Folder read(folder.path()); }),
        ContainsSubstring("it must be the name of a .safetensors file in the same folder, not a path"));
  }
  folder.write(kIndex, R"({"weight_map": {"a": 1}})");
  CHECK_THAT(error_of([&] { Folder read(folder.path()); }),
             ContainsSubstring("weight_map has number for \"a\""));
  folder.write(kIndex, R"({"weight_map": []})");
  CHECK_THAT(error_of([&] { Folder read(folder.path()); }),
             ContainsSubstring("weight_map must be an object"));
  folder.write(kIndex, R"({"weight_map": {"a": "none.safetensors", "b": "other.safetensors"}})");
  write_tensors(folder.path("other.safetensors"), {tensor("b", Dtype::f32, {1})});
  CHECK(error_of([&] { Folder read(folder.path()); }) ==
        folder.path() +
            ": 1 of the 2 files of model.safetensors.index.json are missing, the first is "
            "none.safetensors; fetch them");
}

TEST_CASE("an index that does not agree with its files is refused") {
  TempFolder folder;
  with_config(folder);
  write_tensors(folder.path("1.safetensors"), {tensor("a", Dtype::f32, {1}), tensor("b", Dtype::f32, {1})});
  write_tensors(folder.path("2.safetensors"), {tensor("a", Dtype::f32, {1})});
  folder.write(kIndex, R"({"weight_map": {"a": "1.safetensors", "c": "2.safetensors"}})");
  const std::string problem = error_of([&] { Folder read(folder.path()); });
  CHECK_THAT(problem, ContainsSubstring("in 1.safetensors, where the index does not list it: \"b\""));
  CHECK_THAT(problem, ContainsSubstring("in 2.safetensors, where the index does not list it: \"a\""));
  CHECK_THAT(problem, ContainsSubstring("missing in 2.safetensors, where the index lists it: \"c\""));
}

TEST_CASE("a folder without weights or configuration is refused with what to do") {
  TempFolder folder;
  CHECK_THAT(error_of([&] { Folder read(folder.path()); }),
             ContainsSubstring("cannot open " + folder.path(kConfig)));
  CHECK_THAT(error_of([&] { Folder read(with_config(folder).path()); }),
             ContainsSubstring("neither model.safetensors nor model.safetensors.index.json; weights in other "
                               "formats (.bin, .pth, .gguf) must be saved as safetensors first"));
}

TEST_CASE("shards without an index are read if they are all there") {
  TempFolder folder;
  with_config(folder);
  const std::string second = folder.path("model-00002-of-00002.safetensors");
  write_tensors(folder.path("model-00001-of-00002.safetensors"), {tensor("a", Dtype::f32, {2})});
  const std::string place = folder.path() + ": neither model.safetensors nor model.safetensors.index.json";
  CHECK(error_of([&] { Folder read(folder.path()); }) ==
        place + ", and 1 of 2 shards are missing, the first is model-00002-of-00002.safetensors; fetch them");
  write_tensors(second, {tensor("b", Dtype::f32, {3})});
  Folder(folder.path()).check(std::vector<Parameter>{{"a", {2}}, {"b", {3}}});
  write_tensors(second, {tensor("a", Dtype::f32, {2})});
  CHECK_THAT(error_of([&] { Folder read(folder.path()); }),
             ContainsSubstring("both \"a\" of model-00001-of-00002.safetensors and \"a\" of "
                               "model-00002-of-00002.safetensors"));
  write_tensors(folder.path("model-00001-of-00001.safetensors"), {tensor("a", Dtype::f32, {2})});
  CHECK_THAT(error_of([&] { Folder read(folder.path()); }),
             ContainsSubstring(place + ", and shards of two models, model-00001-of-00001.safetensors and "));
  for (const char* shard : {"1", "2"})
    fs::remove(folder.path(std::string("model-0000") + shard + "-of-00002.safetensors"));
  Folder(folder.path()).check(std::vector<Parameter>{{"a", {2}}});
}

TEST_CASE("weights of other names are refused by their name") {
  TempFolder folder;
  write_tensors(with_config(folder).path("consolidated.safetensors"), {tensor("a", Dtype::f32, {2})});
  CHECK_THAT(error_of([&] { Folder read(folder.path()); }),
             ContainsSubstring("; consolidated.safetensors is no name of transformers"));
}

TEST_CASE(
    "a head that equals the embedding is accepted in a tied model, and another is refused with the "
    "difference") {
  TempFolder folder;
  with_config(folder);
  const std::vector<Parameter> tied = {{"model.embed_tokens.weight", {3}}};
  const auto problem_of_head = [&](const std::vector<float>& head) {
    write_numbers(folder.path(kWeights),
                  {{"model.embed_tokens.weight", {1, 2, -3}}, {"lm_head.weight", head}});
    return error_of([&] { Folder(folder.path()).check(tied); });
  };
  CHECK(problem_of_head({1, 2, -3}) == "no error");
  const std::string first = folder.path() +
                            ": the weights are not those of its model:\n  a head that is not the embedding, "
                            "while config.json has tie_word_embeddings = true: ";
  CHECK(problem_of_head({1, 2.5, -2.75}) ==
        first + "\"lm_head.weight\" differs by up to 0.5\n" + kOtherModel);
  CHECK(problem_of_head({1, 2}) ==
        first + "\"lm_head.weight\" is F32 [2], and \"model.embed_tokens.weight\" is F32 [3]\n" +
            kOtherModel);
  write_tensors(folder.path(kWeights), {tensor("model.embed_tokens.weight", Dtype::f32, {3}),
                                        tensor("lm_head.weight", Dtype::f16, {3})});
  CHECK_NOTHROW(Folder(folder.path()).check(tied));
}

TEST_CASE("a model without a head in its files is told of tie_word_embeddings") {
  TempFolder folder;
  write_numbers(with_config(folder).path(kWeights), {{"model.embed_tokens.weight", {1, 2}}});
  CHECK_THAT(
      error_of([&] {
        Folder(folder.path())
            .check(std::vector<Parameter>{{"model.embed_tokens.weight", {2}}, {"lm_head.weight", {2}}});
      }),
      ContainsSubstring("missing, while config.json has no tie_word_embeddings = true: \"lm_head.weight\""));
}

}  // namespace rondo::hugging_face

// Tests what the reader of tokenizer.json accepts and refuses, and that no input makes it crash.
#include "datasets/tokenizer/tokenizer_file.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

#include "tests/datasets/tokenizer/small_tokenizer.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

std::string refusal(const json& document, const json& config = nullptr) {
  return data_error([&] { tokenizer_of(document, config); });
}

// Returns the error for the small tokenizer with one value replaced.
std::string refusal_with(const std::string& pointer, const json& value) {
  json document = small_tokenizer();
  document[json::json_pointer(pointer)] = value;
  return refusal(document);
}

json llama_processor() {
  return {{"type", "Sequence"},
          {"processors",
           {{{"type", "ByteLevel"}},
            {{"type", "TemplateProcessing"},
             {"single", {{{"SpecialToken", {{"id", "<|end|>"}}}}, {{"Sequence", {{"id", "A"}}}}}}}}}};
}

}  // namespace

TEST_CASE("merges may be strings or pairs, and may be empty") {
  json document = small_tokenizer();
  document["model"]["merges"] = json::array({json::array({"h", "e"}), json::array({"l", "l"})});
  CHECK(ids_of(*tokenizer_of(document), "hello") == Ids{256, 257, 'o'});
  document["model"]["merges"] = {"#version: 0.2", "h e"};  // as in merges.txt
  CHECK(ids_of(*tokenizer_of(document), "he") == Ids{256});
  document["model"]["merges"] = json::array();
  CHECK(ids_of(*tokenizer_of(document), "he") == Ids{'h', 'e'});
}

TEST_CASE("BOS and EOS come from tokenizer_config.json, as strings or objects") {
  const auto strings = tokenizer_of(small_tokenizer(), {{"bos_token", "<|end|>"}, {"eos_token", "hello"}});
  CHECK(strings->bos() == 261);
  CHECK(strings->eos() == 259);
  const auto object = tokenizer_of(small_tokenizer(), {{"eos_token", added_token("<|end|>", 261)}});
  CHECK(object->eos() == 261);
  CHECK(object->bos() == std::nullopt);
  CHECK_THAT(
      refusal(small_tokenizer(), {{"bos_token", "<s>"}}),
      ContainsSubstring("tokenizer_config.json: bos_token = \"<s>\": is not a token of tokenizer.json"));
  CHECK_THAT(refusal(small_tokenizer(), {{"bos_token", 3}}), ContainsSubstring("must be a string"));
}

TEST_CASE("special_tokens_map.json names the ends that tokenizer_config.json does not name") {
  const TempFolder folder;
  folder.write("tokenizer.json", small_tokenizer().dump());
  const auto ends = [&](const char* config, const char* map) {
    folder.write("tokenizer_config.json", config);
    folder.write("special_tokens_map.json", map);
    const TokenizerFile file = read_tokenizer_file(folder.path());
    return std::pair(file.bos.value_or(-1), file.eos.value_or(-1));
  };
  const char* map = R"({"bos_token": "hello", "eos_token": {"content": "<|end|>"}})";
  CHECK(ends("{}", map) == std::pair(259, 261));
  CHECK(ends(R"({"eos_token": "he", "bos_token": null})", map) == std::pair(259, 256));
  CHECK(ends(R"({"added_tokens_decoder": {}})", map) == std::pair(-1, -1));
}

TEST_CASE("without tokenizer_config.json the template of the post_processor names BOS") {
  json document = small_tokenizer();
  document["post_processor"] = llama_processor();
  const auto tokenizer = tokenizer_of(document);
  CHECK(tokenizer->bos() == 261);
  CHECK_THAT(data_error([&] { tokenizer->eos(); }),
             ContainsSubstring("tokenizer.json: there is no eos_token; control tokens are "));
}

TEST_CASE("an empty token of the vocabulary is no BOS") {
  json document = small_tokenizer();
  document["model"]["vocab"][""] = 261;
  document["added_tokens"][0]["id"] = 262;
  CHECK_FALSE(tokenizer_of(document)->bos().has_value());
}

TEST_CASE("a tokenizer's name changes with its ids and with BOS and EOS") {
  const std::string name = tokenizer_of(small_tokenizer())->name();
  CHECK_THAT(name, ContainsSubstring("bpe-262-"));
  CHECK(tokenizer_of(small_tokenizer())->name() == name);
  CHECK(tokenizer_of(small_tokenizer(), {{"eos_token", "<|end|>"}})->name() != name);
  json document = small_tokenizer();
  document["model"]["merges"].erase(0);
  CHECK(tokenizer_of(document)->name() != name);
}

TEST_CASE("a tokenizer is read from a folder or a file, and anything else is refused") {
  const TempFolder folder;
  CHECK_THAT(data_error([&] { load_tokenizer(folder.path("x.json")); }),
             ContainsSubstring(
                 "no such file. Name a tokenizer.json, tiktoken.model, tokenizer.model or tekken.json, "
                 "a folder that holds one, or bytes (training.tokenizer, --tokenizer)"));
  CHECK_THAT(data_error([&] { load_tokenizer(folder.path()); }),
             ContainsSubstring("tokenizer.json\": no such file"));
  folder.write("tokenizer.json", small_tokenizer().dump());
  CHECK(load_tokenizer(folder.path())->name() == load_tokenizer(folder.path("tokenizer.json"))->name());
  folder.write("tokenizer.json", "{\"version\": \"1.0\",");
  CHECK_THAT(data_error([&] { load_tokenizer(folder.path()); }),
             ContainsSubstring("tokenizer.json: is not JSON: "));
  folder.write("tokenizer.json", "[]");
  CHECK(data_error([&] { load_tokenizer(folder.path()); }) ==
        folder.path("tokenizer.json") + " = []: must be an object");
}

TEST_CASE("a pointer of Git LFS in place of a tokenizer is refused as one") {
  const TempFolder folder;
  const std::string path = folder.write("tokenizer.json", "version https://git-lfs.github.com/spec/v1\n");
  CHECK(data_error([&] { read_tokenizer_file(path); }) ==
        path + ": is the pointer of Git LFS and not the file; fetch the file with `git lfs pull`");
}

TEST_CASE("unsupported settings are refused with their path and value") {
  const std::vector<std::tuple<std::string, json, std::string>> cases = {
      {"/version", "2.0", "version = \"2.0\": is not supported; it must be \"1.0\""},
      {"/normalizer", {{"type", "Nmt"}}, "normalizer.type = \"Nmt\": is a normalizer that is not supported"},
      {"/normalizer", {{"type", 5}}, "normalizer.type = 5: must be a string"},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "Precompiled"}}}}},
       "normalizer.normalizers[0].type = \"Precompiled\": is a normalizer that is not supported"},
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"Regex", "\\w"}}}, {"content", ""}},
       "normalizer.pattern.Regex: \"\\w\" at byte 0 of the regular expression is not supported"},
      {"/normalizer", {{"type", "Prepend"}}, "normalizer.prepend is missing"},
      {"/post_processor",
       {{"type", "PairProcessing"}},
       "post_processor.type = \"PairProcessing\": is a post-processor that is not supported; it must be"},
      {"/post_processor",
       {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, {{"type", "Roberta"}}}}},
       "post_processor.processors[1].type = \"Roberta\": is a post-processor that is not supported"},
      {"/model/type", "Unigram", "model.type = \"Unigram\": is not supported; the model must be BPE"},
      {"/model/dropout", 0.1, "model.dropout = 0.1: is not supported"},
      {"/model/unk_token", 3, "model.unk_token = 3: must be a string"},
      {"/model/byte_fallback", "yes", "model.byte_fallback = \"yes\": must be true or false"},
      {"/model/continuing_subword_prefix", "##",
       "model.merges[0] = \"h e\": the second token is shorter than continuing_subword_prefix, \"##\""},
      {"/model/ignore_merges", 1, "model.ignore_merges = 1: must be true or false"},
      {"/model/vocab", json::array(), "model.vocab = []: must be an object"},
      {"/model/vocab", json::object(), "model.merges[0] = \"h e\": the token \"h\" is not in model.vocab"},
      {"/model/vocab/he", -1, "model.vocab.he = -1: must be a whole number from 0 to 2097151"},
      {"/model/vocab/he", 1e300, "model.vocab.he = 1e+300: must be a whole number"},
      {"/model/vocab/he", 18446744073709551615u,
       "model.vocab.he = 18446744073709551615: must be a whole number"},
      {"/model/vocab/he", 65, "another token has this id"},
      {"/model/merges/1", "l", "model.merges[1] = \"l\": must be two tokens"},
      {"/model/merges/1", {"l"}, "model.merges[1] = [\"l\"]: must be two tokens"},
      {"/model/merges/1", "l x", "the token \"lx\" is not in model.vocab"},
      {"/model/merges/1", "ll zz", "the token \"zz\" is not in model.vocab"},
      {"/added_tokens/0/lstrip", 1, "added_tokens[0].lstrip = 1: must be true or false"},
      {"/added_tokens/0/single_word", 1, "added_tokens[0].single_word = 1: must be true or false"},
      {"/added_tokens/0/content", "", "added_tokens[0].content = \"\": an empty token is not supported"},
      {"/added_tokens/0/id", 300,
       "added_tokens[0].id = 300: must be 261, the id that Hugging Face's tokenizers gives"},
      {"/pre_tokenizer", 7, "pre_tokenizer = 7: must be an object"},
      {"/pre_tokenizer/type", "UnicodeScripts",
       "pre_tokenizer.type = \"UnicodeScripts\": is a pre-tokenizer that is not supported"},
      {"/pre_tokenizer/type", "Metaspace", "pre_tokenizer.replacement is missing"},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "ab"}},
       "pre_tokenizer.replacement = \"ab\": must be one character"},
      {"/pre_tokenizer",
       {{"type", "Metaspace"},
        {"replacement", "_"},
        {"add_prefix_space", false},
        {"prepend_scheme", "first"}},
       "has add_prefix_space = false; prepend_scheme must then be \"never\""},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "_"}, {"add_prefix_space", false}},
       "prepend_scheme must then be \"never\""},
      {"/pre_tokenizer/use_regex", "yes", "pre_tokenizer.use_regex = \"yes\": must be true or false"},
      {"/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", 5}},
       "pre_tokenizer.pretokenizers = 5: must be an array"},
  };
  for (const auto& [pointer, value, message] : cases)
    CHECK_THAT(refusal_with(pointer, value), ContainsSubstring(message));
}

TEST_CASE("an unsupported split is refused with its path") {
  const auto refusal_of_split = [](const json& step) {
    return refusal_with("/pre_tokenizer",
                        {{"type", "Sequence"}, {"pretokenizers", {step, {{"type", "ByteLevel"}}}}});
  };
  json step = split("a");
  CHECK(refusal_of_split(step) == "no error");
  step["behavior"] = "Merged";
  CHECK_THAT(
      refusal_of_split(step),
      ContainsSubstring("pre_tokenizer.pretokenizers[0].behavior = \"Merged\": is not supported; it "
                        "must be Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous"));
  CHECK_THAT(
      refusal_of_split(split("\\w+")),
      ContainsSubstring("pre_tokenizer.pretokenizers[0].pattern.Regex: \"\\w\" at byte 0 of the regular"));
  CHECK_THAT(refusal_of_split(split("(a")), ContainsSubstring("the regular expression does not compile"));
  CHECK_THAT(refusal_of_split(split("")), ContainsSubstring("an empty pattern is not supported"));
  CHECK(refusal_of_split({{"type", "ByteLevel"}}) == "no error");
}

TEST_CASE("steps and added tokens that would make every text slow are refused") {
  const json step = {
      {"type", "Split"}, {"pattern", {{"String", "q"}}}, {"behavior", "Isolated"}, {"invert", false}};
  json sequence = {{"type", "Sequence"}, {"pretokenizers", json(5000, step)}};
  CHECK_THAT(
      refusal_with("/pre_tokenizer", sequence),
      ContainsSubstring("pre_tokenizer.pretokenizers[100] = ") && ContainsSubstring("follows 100 others"));
  sequence = {{"type", "Sequence"}, {"normalizers", json(5000, json{{"type", "NFC"}})}};
  CHECK_THAT(refusal_with("/normalizer", sequence), ContainsSubstring("follows 100 others"));
  json document = small_tokenizer();
  document["added_tokens"].push_back(added_token(std::string(1025, 'a'), 262));
  CHECK_THAT(refusal(document), ContainsSubstring("has more than 1024 bytes"));
}

TEST_CASE("a missing token is named") {
  json document = small_tokenizer();
  document.erase("model");
  CHECK_THAT(refusal(document), ContainsSubstring("tokenizer.json: model is missing"));
  document = small_tokenizer();
  document["added_tokens"].push_back(added_token("<|end|>", 262));
  CHECK_THAT(refusal(document), ContainsSubstring("added_tokens[1].content = \"<|end|>\": is added twice"));
}

TEST_CASE("all problems of a file are reported at once") {
  json document = small_tokenizer();
  document["normalizer"] = {{"type", "Nmt"}};
  document["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
  document["model"]["dropout"] = 0.1;
  document["added_tokens"][0]["rstrip"] = "no";
  CHECK_THAT(
      refusal(document),
      ContainsSubstring("tokenizer.json: this tokenizer cannot be read:\n  normalizer.type = \"Nmt\": ") &&
          ContainsSubstring("\n  pre_tokenizer.type = \"UnicodeScripts\": ") &&
          ContainsSubstring("\n  model.dropout = 0.1: ") &&
          ContainsSubstring("\n  added_tokens[0].rstrip = \"no\": "));
}

TEST_CASE("settings that change no id are accepted and do not change the tokenizer's name") {
  const std::string name = tokenizer_of(small_tokenizer())->name();
  const std::vector<std::pair<std::string, json>> settings = {
      {"/truncation", {{"max_length", 5}}},
      {"/padding", {{"strategy", "BatchLongest"}, {"pad_id", 0}}},
      {"/decoder", nullptr},
      {"/decoder", {{"type", "WordPiece"}}},
      {"/post_processor", {{"type", "RobertaProcessing"}, {"cls", {"<s>", 0}}, {"sep", {"</s>", 2}}}},
      {"/model/dropout", 0.0},
      {"/model/unk_token", "<unk>"},
      {"/model/fuse_unk", true},
      {"/model/byte_fallback", true},
      {"/model/continuing_subword_prefix", ""},
      {"/model/end_of_word_suffix", ""},
      {"/normalizer", {{"type", "Sequence"}, {"normalizers", json::array()}}},
      {"/model/merges/0", json::array({"h", "e"})},
  };
  for (const auto& [pointer, value] : settings) {
    CAPTURE(pointer);
    json document = small_tokenizer();
    document[json::json_pointer(pointer)] = value;
    const auto tokenizer = tokenizer_of(document);
    CHECK(tokenizer->name() == name);
    CHECK(ids_of(*tokenizer, "hello w\u00e9") == Ids{259, 260, 0xC3, 0xA9});
  }
}

TEST_CASE("an empty token may be in the vocabulary") {
  json document = small_tokenizer();
  document["model"]["vocab"][""] = 261;
  document["added_tokens"][0]["id"] = 262;
  const auto tokenizer = tokenizer_of(document);
  CHECK(ids_of(*tokenizer, "he<|end|>") == Ids{256, 262});
  CHECK(text_of(*tokenizer, {256, 261, 262}) == "he<|end|>");
}

TEST_CASE("a model without a type is what its fields say") {
  json document = small_tokenizer();
  document["model"].erase("type");
  CHECK(ids_of(*tokenizer_of(document), "hello") == Ids{259});
  document["model"] = {{"vocab", json::array()}, {"unk_id", 0}};
  CHECK_THAT(refusal(document),
             ContainsSubstring("is a Unigram model without a type; the model must be BPE"));
  document["model"] = {{"vocab", json::object()}, {"max_input_chars_per_word", 100}};
  CHECK_THAT(refusal(document), ContainsSubstring("is a WordPiece model without a type"));
  document["model"] = {{"vocab", json::object()}, {"unk_token", "<unk>"}};
  CHECK_THAT(refusal(document), ContainsSubstring("is a WordLevel model without a type"));
}

TEST_CASE("an unknown token that can come must be in the vocabulary") {
  json document = small_tokenizer();
  document["model"]["unk_token"] = "<unk>";
  document["pre_tokenizer"] = nullptr;
  CHECK_THAT(refusal(document),
             ContainsSubstring("model.unk_token = \"<unk>\": is not a token of model.vocab"));
}

TEST_CASE("two added tokens that the normalizer makes equal are refused") {
  json document = small_tokenizer();
  document["normalizer"] = {{"type", "Lowercase"}};
  document["added_tokens"] = {added_token("<A>", 261, true), added_token("<a>", 262, true)};
  CHECK_THAT(refusal(document),
             ContainsSubstring("added_tokens[1].content = \"<a>\": is equal to another added "
                               "token after the normalizer"));
}

TEST_CASE("a tokenizer's name does not change with the text of its file") {
  const TempFolder folder;
  folder.write("tokenizer.json", small_tokenizer().dump());
  folder.write("indented.json", small_tokenizer().dump(2));
  const auto plain = load_tokenizer(folder.path("tokenizer.json"));
  const auto indented = load_tokenizer(folder.path("indented.json"));
  CHECK(plain->name() == indented->name());
  CHECK(plain->file_hash() != indented->file_hash());
}

TEST_CASE("a tokenizer's name changes with each stage and each rule of an added token") {
  std::set<std::string> names = {tokenizer_of(small_tokenizer())->name()};
  const std::vector<std::pair<std::string, json>> changes = {
      {"/normalizer", {{"type", "NFC"}}},
      {"/normalizer", {{"type", "NFKC"}}},
      {"/normalizer", {{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}},
      {"/normalizer", {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}},
      {"/normalizer", {{"type", "Replace"}, {"pattern", {{"String", "."}}}, {"content", "x"}}},
      {"/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "."}}}, {"content", "x"}}},
      {"/pre_tokenizer/add_prefix_space", true},
      {"/pre_tokenizer/use_regex", false},
      {"/pre_tokenizer", nullptr},
      {"/model/end_of_word_suffix", "</w>"},
      {"/model/ignore_merges", true},
      {"/added_tokens/0/lstrip", true},
      {"/added_tokens/0/rstrip", true},
      {"/added_tokens/0/single_word", true},
      {"/added_tokens/0/normalized", true},
  };
  for (const auto& [pointer, value] : changes) {
    CAPTURE(pointer);
    json document = small_tokenizer();
    document[json::json_pointer(pointer)] = value;
    CHECK(names.insert(tokenizer_of(document)->name()).second);
  }
}

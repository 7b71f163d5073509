// Tests what stands before and after documents, and text that spells control tokens.
#include "datasets/tokenizer/document_ends.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/datasets/tokenizer/small_tokenizer.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

// <|begin|> is 262, <|end|> is 261.
json with_begin() {
  json document = small_tokenizer();
  document["added_tokens"].push_back(added_token("<|begin|>", 262));
  return document;
}

DocumentEnds ends(const json& config, const EndNames& names = {}) {
  return document_ends(names, *tokenizer_of(with_begin(), config));
}

const json kBoth = {{"bos_token", "<|begin|>"}, {"eos_token", "<|end|>"}};
const json kEqual = {{"bos_token", "<|end|>"}, {"eos_token", "<|end|>"}};

Ids spelled_ids(const json& document, const std::string& text, std::int64_t count) {
  const TempFolder folder;
  folder.write("tokenizer.json", document.dump());
  folder.write("tokenizer_config.json", kEqual.dump());
  Ids ids;
  CHECK(load_tokenizer(folder.path(), SpecialTokens::text)->encode(text, ids) == count);
  return ids;
}

}  // namespace

TEST_CASE("a document is between BOS and EOS, as far as tokenizer_config.json names them") {
  CHECK(ends(kBoth) == DocumentEnds{262, 261});
  CHECK(ends({{"eos_token", "<|end|>"}}) == DocumentEnds{std::nullopt, 261});
  CHECK(document_ends({}, ByteTokenizer()) == DocumentEnds{256, 257});
}

TEST_CASE("add_bos_token = false leaves BOS out, true and null keep it") {
  for (const bool adds : {false, true}) {
    json config = kBoth;
    config["add_bos_token"] = adds;
    CHECK(ends(config) == DocumentEnds{adds ? std::optional(262) : std::nullopt, 261});
  }
  json config = kBoth;
  config["add_bos_token"] = nullptr;
  CHECK(ends(config) == DocumentEnds{262, 261});
  config["add_bos_token"] = "no";
  CHECK_THAT(data_error([&] { ends(config); }), ContainsSubstring("add_bos_token = \"no\": must be"));
}

TEST_CASE("a post_processor that puts BOS first does not matter where add_bos_token is false") {
  json document = with_begin();
  document["post_processor"] = {
      {"type", "RobertaProcessing"}, {"cls", {"<|begin|>", 262}}, {"sep", {"<|end|>", 261}}};
  CHECK(document_ends({}, *tokenizer_of(document, {{"eos_token", "<|end|>"}})) == DocumentEnds{262, 261});
  CHECK(document_ends({}, *tokenizer_of(document, {{"eos_token", "<|end|>"}, {"add_bos_token", false}})) ==
        DocumentEnds{std::nullopt, 261});
}

TEST_CASE("where BOS equals EOS one separator is after each document") {
  for (const json& adds : {json(), json(false), json(true)}) {
    json config = kEqual;
    config["add_bos_token"] = adds;
    CHECK(ends(config) == DocumentEnds{std::nullopt, 261});
  }
}

TEST_CASE("keys name the text of a token or none, and auto does not repeat the other end") {
  CHECK(ends(kBoth, {"none", "none"}) == DocumentEnds{});
  CHECK(ends(kBoth, {"none", "auto"}) == DocumentEnds{std::nullopt, 261});
  CHECK(ends(kBoth, {"auto", "none"}) == DocumentEnds{262, std::nullopt});
  CHECK(ends(kBoth, {"hello", "\n"}) == DocumentEnds{259, '\n'});
  CHECK(ends(kBoth, {"<|end|>", "auto"}) == DocumentEnds{261, std::nullopt});
  CHECK(ends(kBoth, {"auto", "<|begin|>"}) == DocumentEnds{std::nullopt, 262});
  CHECK(ends(kEqual, {"<|end|>", "<|end|>"}) == DocumentEnds{261, 261});
  CHECK(ends(nullptr, {"auto", "hello"}) == DocumentEnds{std::nullopt, 259});  // no EOS is needed
  CHECK_THAT(
      data_error([&] { ends(nullptr); }),
      ContainsSubstring("there is no eos_token; control tokens are <|end|>, <|begin|>. Name the one that "
                        "ends a document in training.document_end (--document-end)"));
}

TEST_CASE("the byte tokenizer's ends are <bos>, <eos> or a byte") {
  const ByteTokenizer bytes;
  CHECK(document_ends({"<eos>", "\n"}, bytes) == DocumentEnds{257, '\n'});
  CHECK(document_ends({"none", "\xff"}, bytes) == DocumentEnds{std::nullopt, 255});
  CHECK_THAT(
      data_error([&] {
        document_ends({"<boss>", "auto"}, bytes);
      }),
      ContainsSubstring("training.document_begin = \"<boss>\" (or --document-begin) is not one token of the "
                        "tokenizer byte (did you mean <bos>?)"));
}

TEST_CASE("a name that is not one token is refused with the nearest control token") {
  CHECK_THAT(
      data_error([&] {
        ends(kBoth, {"auto", "<|ends|>"});
      }),
      ContainsSubstring("training.document_end = \"<|ends|>\" (or --document-end) is not one token of") &&
          ContainsSubstring("(did you mean <|end|>?)"));
  CHECK_THAT(data_error([&] {
               ends(kBoth, {"hello hello", "auto"});
             }),
             ContainsSubstring("is not one token"));
}

TEST_CASE("what is between documents is shown as tokens, and without a tokenizer as ids") {
  const auto tokenizer = tokenizer_of(with_begin(), kBoth);
  CHECK(shown({262, 261}, tokenizer.get()) == "<|begin|> text <|end|>");
  CHECK(shown({std::nullopt, '\n'}, tokenizer.get()) == "text \"\\n\"");
  CHECK(shown({5, std::nullopt}, nullptr) == "5 text");
  CHECK(shown({}, nullptr) == "text, nothing between documents");
  CHECK(shown({262, 1 << 30}, tokenizer.get()) == "<|begin|> text 1073741824");  // of a damaged file
}

TEST_CASE("text that spells a control token becomes it or stays text, and both are counted") {
  const std::string text = "he<|end|>ll <|begin|>";
  Ids ids;
  const auto tokenizer = tokenizer_of(with_begin(), kBoth);
  CHECK(tokenizer->encode(text, ids) == 2);
  CHECK(ids == Ids{256, 261, 257, ' ', 262});
  CHECK(tokenizer->control_tokens() == Ids{261, 262});
  const Ids plain = spelled_ids(with_begin(), text, 2);
  CHECK(text_of(*tokenizer, plain) == text);
  CHECK(std::find_if(plain.begin(), plain.end(), [](auto id) { return id > 260; }) == plain.end());
}

TEST_CASE("added tokens that are not special are found in text, unless they are BOS or EOS") {
  json document = with_begin();
  document["added_tokens"].push_back(added_token("  ", 263));
  for (json& token : document["added_tokens"]) token["special"] = false;
  const Ids ids = spelled_ids(document, "<|begin|>  <|end|>", 1);
  CHECK(std::vector(ids.begin(), ids.begin() + 3) == Ids{262, 263, '<'});
}

TEST_CASE("the byte tokenizer has no token that text can spell") {
  Ids ids;
  CHECK(ByteTokenizer().encode("<bos>", ids) == 0);
  CHECK(ids == Ids{'<', 'b', 'o', 's', '>'});
  CHECK(ByteTokenizer().control_tokens().empty());
}

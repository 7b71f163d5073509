// Tests what the readers of tiktoken ranks, Tekken and SentencePiece accept and refuse. The ids of
// whole structures are compared with the packages (formats_against_packages.py).
#include <array>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/datasets/tokenizer/small_tokenizer.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

// a b c ab bc abc, and a space. "Yg==" is "b".
constexpr const char* kRanks = "YQ== 0\nYg== 1\nYw== 2\nIA== 3\nYWI= 4\nYmM= 5\nYWJj 6\n";

constexpr RankFamily family(std::size_t ranks = 7) {
  return {.name = "letters", .ranks = ranks, .pattern = R"(\p{L}+|\s+)", .bos = "<s>", .eos = "</s>"};
}

json config_of(const json& tokens) { return {{"added_tokens_decoder", tokens}}; }
const json kEnds = {{"7", {{"content", "<s>"}}}, {"8", {{"content", "</s>"}}}, {"10", {{"content", "<x>"}}}};

json with_ends(json tokens) {
  tokens.update(kEnds);
  return tokens;
}

std::unique_ptr<BpeTokenizer> tokenizer_of_ranks(const std::string& ranks, const json& tokens = kEnds,
                                                 const RankFamily& of = family()) {
  const TempFolder folder;
  folder.write("tiktoken.model", ranks);
  folder.write("tokenizer_config.json", config_of(tokens).dump());
  return std::make_unique<BpeTokenizer>(read_tokenizer_file(folder.path(), std::array{of}));
}

std::string refusal_of_ranks(const std::string& ranks, const json& tokens = kEnds) {
  return data_error([&] { tokenizer_of_ranks(ranks, tokens); });
}

json tekken() {
  json vocab = json::array();
  for (const char* bytes : {"YQ==", "Yg==", "YWI=", "Yw=="})
    vocab.push_back({{"rank", vocab.size()}, {"token_bytes", bytes}, {"token_str", nullptr}});
  return {{"config",
           {{"pattern", R"(\p{L}+|\s+)"},
            {"num_vocab_tokens", 4},
            {"default_vocab_size", 8},
            {"default_num_special_tokens", 5},
            {"version", "v3"}}},
          {"vocab", vocab}};
}

std::unique_ptr<Tokenizer> written(const std::string& name, const std::string& bytes,
                                   const json& config = nullptr) {
  const TempFolder folder;
  folder.write(name, bytes);
  if (!config.is_null()) folder.write("tokenizer_config.json", config.dump());
  return load_tokenizer(folder.path());
}

std::string refusal_of(const std::string& name, const std::string& bytes) {
  return data_error([&] { written(name, bytes); });
}

std::string tekken_with(const std::string& pointer, const json& value) {
  json document = tekken();
  document[json::json_pointer(pointer)] = value;
  return document.dump();
}

// Fields of a message of protobuf with numbers below 16 and values below 128, or any above 15.
std::string tag(int field, int wire) {
  const int value = field << 3 | wire;
  return value < 128 ? std::string(1, static_cast<char>(value))
                     : std::string{static_cast<char>((value & 127) | 128), static_cast<char>(value >> 7)};
}
std::string number(int field, int value) { return tag(field, 0) + static_cast<char>(value); }
std::string bytes(int field, const std::string& value) {
  return tag(field, 2) + static_cast<char>(value.size()) + value;
}
std::string piece(const std::string& text, float score, int type = 1) {
  std::string real;
  for (int i = 0; i < 4; ++i) real += static_cast<char>(std::bit_cast<std::uint32_t>(score) >> 8 * i);
  return bytes(1, bytes(1, text) + tag(2, 5) + real + number(3, type));
}
const std::string kIdentity = bytes(3, bytes(1, "identity") + number(3, 0) + number(4, 0));
const std::string kControls = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3);
const std::string kLetters =
    piece("ab", -1) + piece("bc", 0) + piece("a", -3) + piece("b", -3) + piece("c", -3);
std::string model(const std::string& pieces, const std::string& trainer = number(3, 2),
                  const std::string& normalizer = kIdentity) {
  return pieces + bytes(2, trainer) + normalizer;
}

}  // namespace

TEST_CASE("ranks merge by the rank of what they make, the leftmost first, and a token is never split") {
  const auto tokenizer = tokenizer_of_ranks(kRanks);
  CHECK(ids_of(*tokenizer, "abc") == Ids{6});
  CHECK(ids_of(*tokenizer, "abcb abbc") == Ids{6, 1, 3, 4, 5});
  CHECK(ids_of(*tokenizer, "ab<s>c</s><x>") == Ids{4, 7, 2, 8, 10});
  CHECK(ids_of(*tokenizer, "a.b") == Ids{0, 1});  // the pattern leaves the dot out
  CHECK(text_of(*tokenizer, {6, 3, 8}) == "abc </s>");
  CHECK(tokenizer->bos() == 7);
  CHECK(tokenizer->eos() == 8);
  CHECK(tokenizer->vocab_size() == 11);
  CHECK_THROWS(text_of(*tokenizer, {9}));
}

TEST_CASE("bytes without a rank are dropped and counted") {
  const auto tokenizer = tokenizer_of_ranks(kRanks);
  CHECK(ids_of(*tokenizer, "axb") == Ids{4});
  CHECK(tokenizer->dropped() == 1);
}

TEST_CASE("the order of lines and their ends do not change what ranks mean") {
  const std::string name = tokenizer_of_ranks(kRanks)->name();
  CHECK(tokenizer_of_ranks("\nYWJj 6\r\nYg== 1\r\nYw== 2\r\nIA== 3\nYWI= 4\nYmM= 5\nYQ== 0")->name() == name);
  CHECK(tokenizer_of_ranks("YQ== 0\nYg== 1\nYw== 2\nIA== 3\nYWI= 5\nYmM= 4\nYWJj 6\n")->name() != name);
}

TEST_CASE("files of ranks are refused with their lines") {
  CHECK_THAT(
      refusal_of_ranks("YQ== 0\nYQ= 1\nYg== -1\nYg== 99999999999\nYw== 2 3\n"),
      ContainsSubstring("line 2: must be a token in base64, a space and its rank, 0 to 2097151\n  line 3") &&
          ContainsSubstring("line 4") && ContainsSubstring("line 5"));
  CHECK_THAT(refusal_of_ranks("YQ== 0\nYg== 0\nYQ== 1\n"),
             ContainsSubstring("line 2: another token has the rank 0") &&
                 ContainsSubstring("line 3: another line has this token"));
  std::string longest = "YQ== 0\n";
  for (int i = 0; i < 400; ++i) longest += "YWFh";
  CHECK_THAT(refusal_of_ranks(longest + " 1\n"),
             ContainsSubstring("line 2: has a token of more than 1024 bytes"));
}

TEST_CASE("ranks without a known pattern are refused with what makes a tokenizer.json of them") {
  const std::string refusal = refusal_of("tiktoken.model", "aGVsbG8= 0\nIHdvcmxk 1\n");
  CHECK_THAT(refusal, ContainsSubstring("tiktoken.model: is a file of 2 tiktoken ranks without the pattern"));
  CHECK_THAT(refusal,
             ContainsSubstring("Kimi K2 (163584, with [BOS] and [EOS] after them in tokenizer_config.json)"));
  CHECK_THAT(refusal, ContainsSubstring("convert_tiktoken_to_fast"));
  RankFamily other = family();
  other.hash = 1;
  CHECK_THAT(data_error([&] { tokenizer_of_ranks(kRanks, kEnds, other); }), ContainsSubstring("letters (7)"));
  const json swapped = {{"7", {{"content", "</s>"}}}, {"8", {{"content", "<s>"}}}},
             moved = {{"7", {{"content", "<s>"}}}, {"9", {{"content", "</s>"}}}};
  for (const json& tokens : {json::object(), swapped, moved})
    CHECK_THAT(refusal_of_ranks(kRanks, tokens),
               ContainsSubstring("letters (7, with <s> and </s> after them"));
}

TEST_CASE("special tokens of ranks are those of tokenizer_config.json, and must not contradict the ranks") {
  CHECK_THAT(refusal_of_ranks(kRanks, with_ends({{"3", {{"content", "x"}}}})),
             ContainsSubstring("added_tokens_decoder.3 = \"x\": the file of ranks has another token"));
  CHECK_THAT(refusal_of_ranks(kRanks, with_ends({{"9", {{"content", "</s>"}}}})),
             ContainsSubstring("added_tokens_decoder.9 = \"</s>\": is a token already"));
  CHECK_THAT(refusal_of_ranks(kRanks, with_ends({{"x", {{"content", "</s>"}}}})),
             ContainsSubstring("its key must be an id"));
  CHECK_THAT(refusal_of_ranks(kRanks, with_ends({{"9", {{"content", ""}}}})),
             ContainsSubstring("must have a \"content\""));
  CHECK(ids_of(*tokenizer_of_ranks(kRanks, with_ends({{"4", {{"content", "ab"}}}})), "ab") == Ids{4});
}

TEST_CASE("published families have the special tokens and the sizes of their models") {
  for (const auto& [name, size] : {std::pair{"Llama 3", 128256},
                                   {"Llama 4", 202048},
                                   {"Kimi K2", 163840},
                                   {"Qwen", 151851},
                                   {"cl100k_base", 100277},
                                   {"o200k_base", 200019}}) {
    const auto families = rank_families();
    const auto of =
        std::find_if(families.begin(), families.end(), [&](const auto& f) { return f.name == name; });
    REQUIRE(of != families.end());
    const auto tokens = of->special_tokens();
    CHECK(tokens.rbegin()->first == size - 1);
    CHECK(tokens.begin()->first >= static_cast<std::int32_t>(of->ranks));
  }
}

TEST_CASE(
    "a tekken.json has special tokens first, which text never becomes, and as many ranks as its size says") {
  const auto tokenizer = written("tekken.json", tekken().dump());
  CHECK(ids_of(*tokenizer, "abab") == Ids{7, 7});
  CHECK(ids_of(*tokenizer, "ca<s>") == Ids{5});  // the fourth token is beyond the size
  CHECK(tokenizer->vocab_size() == 8);
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  CHECK(text_of(*tokenizer, {4, 7}) == "[/INST]ab");
  const json named = {{{"rank", 0}, {"token_str", "<s>"}}, {{"rank", 1}, {"token_str", "<|end|>"}}};
  json document = tekken();
  document["special_tokens"] = named;
  CHECK(text_of(*written("tekken.json", document.dump()), {1, 4}) == "<|end|><SPECIAL_4>");
}

TEST_CASE("settings of a tekken.json are refused with their path") {
  const std::vector<std::tuple<std::string, json, std::string>> cases = {
      {"/config/default_vocab_size", 3,
       "config.default_num_special_tokens = 5: must be a whole number from 0 to 3"},
      {"/config/default_vocab_size", 10, "must be an array of at least 5 tokens"},
      {"/config/default_vocab_size", 1e9, "must be a whole number from 1 to 2097151"},
      {"/config/pattern", 1, "config.pattern = 1: must be a string"},
      {"/config/pattern", "\\w", "\"\\w\" at byte 0 of the regular expression is not supported"},
      {"/config/pattern", "\\p{L}{1,3}+", "has $, \\b or {n}+, which are not supported in a tekken.json"},
      {"/config/pattern", "\\s+$", "has $, \\b or {n}+"},
      {"/config/pattern", "\\p{L}+\\b", "has $, \\b or {n}+"},
      {"/vocab", "x", "vocab = \"x\": must be an array"},
      {"/vocab/1/rank", 2, "vocab[1]"},
      {"/vocab/1/token_bytes", "YQ==", "bytes in base64 that no other token has"},
      {"/vocab/1/token_bytes", "?", "bytes in base64 that no other token has"},
      {"/vocab/1", 7, "vocab[1] = 7"},
      {"/special_tokens", {{{"rank", 9}, {"token_str", "x"}}}, "special_tokens[0].rank = 9"},
      {"/special_tokens", {{{"rank", 3}, {"token_str", "x"}}}, "must have the ranks from 0 on, each once"},
  };
  for (const auto& [pointer, value, why] : cases)
    CHECK_THAT(refusal_of("tekken.json", tekken_with(pointer, value)), ContainsSubstring(why));
}

TEST_CASE("pieces merge by their scores, and the unknown ones become one token") {
  const auto tokenizer = written("tokenizer.model", model(kControls + kLetters));
  CHECK(ids_of(*tokenizer, "abc") == Ids{5, 4});
  CHECK(ids_of(*tokenizer, "abxyab") == Ids{3, 0, 3});
  CHECK(ids_of(*tokenizer, "<s>") == Ids{0});
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  CHECK(text_of(*tokenizer, {5, 4}) == "abc");
}

TEST_CASE("a space precedes a text and is escaped, as the normalizer of the model says") {
  const std::string pieces = kControls + kLetters + piece("\u2581", -3) + piece("\u2581a", -2);
  const auto plain = written("tokenizer.model", model(pieces, number(3, 2), bytes(3, number(4, 0))));
  CHECK(ids_of(*plain, "a  a ") == Ids{9, 8, 9, 8});
  CHECK(text_of(*plain, {9, 8, 9, 8}) == "a  a ");
  const auto removed = written("tokenizer.model", model(pieces, number(3, 2), bytes(3, number(4, 1))));
  CHECK(ids_of(*removed, "  a   a \u2581") == Ids{9, 9});
  CHECK(ids_of(*removed, "   ").empty());
}

TEST_CASE("models of SentencePiece are refused with all that is not supported") {
  CHECK_THAT(
      refusal_of("tokenizer.model", model(kControls + kLetters, number(3, 1) + number(24, 1),
                                          bytes(3, bytes(1, "nmt_nfkc") + bytes(2, "table")))),
      ContainsSubstring("trainer_spec.model_type = UNIGRAM: is not supported; the model must be BPE") &&
          ContainsSubstring("treat_whitespace_as_suffix") &&
          ContainsSubstring("normalizer_spec.name = \"nmt_nfkc\": is a normalizer that is not supported"));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {kLetters + piece("x", 0), "no piece has the type UNKNOWN"},
      {kControls + piece("<unk2>", 0, 2), "pieces[3] = \"<unk2>\": another piece has the type UNKNOWN"},
      {kControls + kLetters + piece("ab", 1), "pieces[8] = \"ab\": is a piece already"},
      {kControls + piece("", 0), "must be UTF-8 and not empty"},
      {kControls + piece("\xff", 0), "must be UTF-8 and not empty"},
      {kControls + piece("x", 0, 7), "pieces[3] = \"x\": has an unknown type"},
      {kControls + piece("x", std::bit_cast<float>(0x7fc00000)), "its score must be finite"},
      {kControls + piece("<0x4>", 0, 6), "has the type BYTE, so it must be <0x00> to <0xFF>"},
      {kControls + piece("<0x41>", 0, 6), "byte_fallback = false: there are pieces of the type BYTE"},
      {kControls + kLetters + piece("ax", 0), "the character \"x\" is not a piece"},
      {kControls + kLetters + piece("abc", 0, 5),
       "\"abc\": has the type UNUSED, and other pieces merge to it"},
  };
  for (const auto& [pieces, why] : cases)
    CHECK_THAT(refusal_of("tokenizer.model", model(pieces)), ContainsSubstring(why));
  CHECK_THAT(refusal_of("tokenizer.model", model(kControls + kLetters, number(3, 2) + number(35, 1))),
             ContainsSubstring("byte_fallback = true: there are not all 256 pieces"));
}

TEST_CASE("a message that is cut or has a wrong field is not a model of SentencePiece") {
  const std::string whole = model(kControls + kLetters);
  CHECK_THAT(refusal_of("tokenizer.model", whole.substr(0, whole.size() - 3)),
             ContainsSubstring("is not a model of SentencePiece: byte") &&
                 ContainsSubstring("longer than the message"));
  CHECK_THAT(refusal_of("tokenizer.model", kControls + number(1, 5)),
             ContainsSubstring("bytes with a length"));
  CHECK_THAT(refusal_of("tokenizer.model", kControls + tag(1, 3)), ContainsSubstring("unknown wire type"));
  CHECK_THAT(refusal_of("tokenizer.model", kControls + std::string(11, '\xff')),
             ContainsSubstring("ends a number of more than 64 bits"));
}

TEST_CASE("of several tokenizers in a folder tokenizer.json is read, and a notice names the others") {
  const TempFolder folder;
  folder.write("tokenizer.model", model(kControls + kLetters));
  folder.write("tekken.json", tekken().dump());
  CHECK(load_tokenizer(folder.path())->name() == load_tokenizer(folder.path("tokenizer.model"))->name());
  folder.write("tokenizer.json", small_tokenizer().dump());
  CHECK(load_tokenizer(folder.path())->name() == load_tokenizer(folder.path("tokenizer.json"))->name());
  CHECK_THAT(tokenizer_notice(folder.path()),
             ContainsSubstring("tokenizer.json is read, not tokenizer.model, tekken.json"));
  CHECK(tokenizer_notice(folder.path("tekken.json")).empty());
}

TEST_CASE("names of BOS and EOS in tokenizer_config.json come before those of the format") {
  const json config = {{"bos_token", "</s>"},
                       {"eos_token", "<|x|>"},
                       {"added_tokens_decoder", {{"20", {{"content", "<|x|>"}}}}}};
  const auto tokenizer = written("tokenizer.model", model(kControls + kLetters), config);
  CHECK(tokenizer->bos() == 2);
  CHECK(tokenizer->eos() == 20);
  CHECK_THAT(data_error([&] {
               written("tokenizer.model", model(kControls + kLetters), {{"eos_token", "y"}});
             }),
             ContainsSubstring("eos_token = \"y\": is not a token of tokenizer.model in the same folder"));
}

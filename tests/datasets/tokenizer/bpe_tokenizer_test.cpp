#include "datasets/tokenizer/bpe_tokenizer.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>
#include <thread>

#include "support/utf8.h"
#include "tests/datasets/tokenizer/small_tokenizer.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

using Words = std::vector<std::string_view>;

nlohmann::json with_splits(const std::vector<nlohmann::json>& splits) {
  nlohmann::json document = small_tokenizer();
  nlohmann::json steps = splits;
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  document["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
  return document;
}

// Merges by definition: repeatedly the pair of neighbours of lowest rank, the leftmost of these.
Ids merged_slowly(Ids ids, const std::vector<BpeMerge>& merges) {
  for (;;) {
    std::size_t best = merges.size(), at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      for (std::size_t rank = 0; rank < best; ++rank)
        if (merges[rank].left == ids[i] && merges[rank].right == ids[i + 1]) best = rank, at = i;
    if (best == merges.size()) return ids;
    ids[at] = merges[best].merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

}  // namespace

TEST_CASE("a word is merged by rank, and words are not merged with each other") {
  const auto tokenizer = tokenizer_of(small_tokenizer());
  CHECK(tokenizer->vocab_size() == 262);
  CHECK(ids_of(*tokenizer, "").empty());
  CHECK(ids_of(*tokenizer, "hello") == Ids{259});
  CHECK(ids_of(*tokenizer, "hell") == Ids{258});
  CHECK(ids_of(*tokenizer, "help") == Ids{256, 'l', 'p'});
  CHECK(ids_of(*tokenizer, "hello world") == Ids{259, 260, 'o', 'r', 'l', 'd'});
  CHECK(ids_of(*tokenizer, "hel1lo") == Ids{256, 'l', '1', 'l', 'o'});
}

TEST_CASE("the merges of a word are those of the definition, for short words and long ones") {
  std::mt19937 random(3);
  BpeModel model;
  for (int byte = 0; byte < 256; ++byte) model.byte_ids[byte] = byte;
  for (std::int32_t next = 256; next < 316; ++next)
    model.merges.push_back({static_cast<std::int32_t>(random() % (next - 256 + 3) + (next < 280 ? 253 : 256)),
                            static_cast<std::int32_t>(random() % 3 + 253), next});
  const Bpe bpe(model);
  Bpe::Work work;
  for (int i = 0; i < 2000; ++i) {
    std::string word(random() % (i % 100 == 0 ? 400 : 20) + 1, '\0');
    for (char& byte : word) byte = static_cast<char>(random() % 3 + 253);
    Ids got;
    bpe.encode(word, work, got);
    std::vector<BpeMerge> last_rank;  // of a repeated pair
    for (const BpeMerge& merge : model.merges) {
      std::erase_if(last_rank,
                    [&](const BpeMerge& m) { return m.left == merge.left && m.right == merge.right; });
      last_rank.push_back(merge);
    }
    Ids bytes;
    for (const char byte : word) bytes.push_back(static_cast<unsigned char>(byte));
    CHECK(got == merged_slowly(bytes, last_rank));
    Ids without_cache;
    bpe.encode_slowly(word, work, without_cache);
    CHECK(without_cache == got);
  }
}

TEST_CASE("words of a batch have the ids that each has alone, cached or not") {
  std::mt19937 random(4);
  BpeModel model;
  for (int byte = 0; byte < 256; ++byte) model.byte_ids[byte] = byte;
  const bool drops = GENERATE(false, true);
  if (drops) model.byte_ids['z'] = -1;
  for (std::int32_t next = 256; next < 400; ++next)
    model.merges.push_back(
        {static_cast<std::int32_t>(random() % 3 == 0 ? random() % (next - 255) + 255 : 'a'),
         static_cast<std::int32_t>(random() % 2 + 'a'), next});
  const Bpe bpe(model);
  Bpe::Work fast, slow;
  for (int round = 0; round < 30; ++round) {
    std::string text;
    std::vector<std::size_t> sizes;
    for (int i = 0; i < 400; ++i) {
      const std::size_t size = random() % (i % 40 == 0 ? 100 : 20) + 1;
      sizes.push_back(size);
      for (std::size_t j = 0; j < size; ++j) text += "aaabb\0z"[random() % (j > 13 ? 7 : 5)];
    }
    std::vector<std::string_view> words;
    for (std::size_t i = 0, begin = 0; i < sizes.size(); begin += sizes[i++])
      words.push_back(std::string_view(text).substr(begin, sizes[i]));
    Ids ids, expected;
    bpe.encode(words, text.data() + text.size(), fast, ids);
    for (const std::string_view word : words) bpe.encode_slowly(word, slow, expected);
    CHECK(ids == expected);
    CHECK(fast.dropped == slow.dropped);
  }
}

TEST_CASE("the ids do not depend on the engine") {
  json document = small_tokenizer();
  document["added_tokens"].push_back(added_token("<x>", 262));
  const TempFolder folder;
  folder.write("tokenizer.json", document.dump());
  const BpeTokenizer fast(read_tokenizer_file(folder.path()));
  const BpeTokenizer reference(read_tokenizer_file(folder.path()), SpecialTokens::token,
                               TokenizerEngine::reference);
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int j = static_cast<int>(random() % 300); j >= 0; --j)
      text += std::array{"hello",  " world", " hell", "<x>", "<|end|>", "\xFF",
                         "\u00E9", "  ",     "\n",    "'ll", "12"}[random() % 11];
    CHECK(ids_of(fast, text) == ids_of(reference, text));
  }
}

TEST_CASE("with ignore_merges a word that is a token is that token, regardless of the merges") {
  nlohmann::json document = small_tokenizer();
  document["model"]["vocab"]["help"] = 261;
  document["added_tokens"][0]["id"] = 262;
  CHECK(ids_of(*tokenizer_of(document), "help") == Ids{256, 'l', 'p'});
  document["model"]["ignore_merges"] = true;
  CHECK(ids_of(*tokenizer_of(document), "help") == Ids{261});
  CHECK(ids_of(*tokenizer_of(document), "helpp") == Ids{256, 'l', 'p', 'p'});
}

TEST_CASE("an added token is found anywhere, the longest of those that begin together") {
  nlohmann::json document = small_tokenizer();
  document["added_tokens"].push_back(added_token("<|end|>\n", 262));
  const auto tokenizer = tokenizer_of(document);
  CHECK(ids_of(*tokenizer, "<|end|>hello<|end|>") == Ids{261, 259, 261});
  CHECK(ids_of(*tokenizer, "x<|end|>\n<|end|") == Ids{'x', 262, '<', '|', 'e', 'n', 'd', '|'});
  CHECK(ids_of(*tokenizer, "<<|end|>") == Ids{'<', 261});
}

TEST_CASE("a normalized added token is searched between the other added tokens") {
  nlohmann::json document = small_tokenizer();
  document["added_tokens"].push_back(added_token("x<|", 262, true));
  const auto tokenizer = tokenizer_of(document);
  CHECK(ids_of(*tokenizer, "x<|end|>") == Ids{'x', 261});
  CHECK(ids_of(*tokenizer, "x<|en") == Ids{262, 'e', 'n'});
}

TEST_CASE("splits apply in order, and the text between matches is a word too") {
  const auto tokenizer = tokenizer_of(with_splits({split(R"(\p{N}{1,3})"), split("[一-龥]+")}));
  CHECK(tokenizer->words("ab1234漢字c漢") == Words{"ab", "123", "4", "漢字", "c", "漢"});
  CHECK(tokenizer->words("").empty());
}

TEST_CASE("a removing split drops its matches, and inverted everything else") {
  nlohmann::json step = split(R"(\s)");
  step["behavior"] = "Removed";
  CHECK(tokenizer_of(with_splits({step}))->words("a b\nc") == Words{"a", "b", "c"});
  step["invert"] = true;
  CHECK(tokenizer_of(with_splits({step}))->words("a b\nc") == Words{" ", "\n"});
}

TEST_CASE("a split on a string takes it literally") {
  nlohmann::json step = split("");
  step["pattern"] = {{"String", ".+"}};
  CHECK(tokenizer_of(with_splits({step}))->words("a.+b") == Words{"a", ".+", "b"});
}

TEST_CASE("an empty match splits at its position") {
  CHECK(tokenizer_of(with_splits({split("x*")}))->words("axxbé") == Words{"a", "xx", "b", "é"});
}

TEST_CASE("twelve million blanks are split like a few") {
  const auto tokenizer = tokenizer_of(with_splits({split(R"(\s*[\r\n]+|\s+(?!\S)|\s+|\p{L}+)")}));
  CHECK(tokenizer->words("    x") == Words{"   ", " ", "x"});
  const std::string blanks(12'000'000, ' ');
  const std::string text = blanks + " x";
  CHECK((tokenizer->words(text) == Words{blanks, " ", "x"}));
}

TEST_CASE("add_prefix_space puts a space before a text that has none") {
  nlohmann::json document = small_tokenizer();
  document["pre_tokenizer"]["add_prefix_space"] = true;
  const auto tokenizer = tokenizer_of(document);
  CHECK(ids_of(*tokenizer, "w") == Ids{260});
  CHECK(ids_of(*tokenizer, " w") == Ids{260});
  CHECK(ids_of(*tokenizer, "w<|end|>w") == Ids{260, 261, 260});
  CHECK(ids_of(*tokenizer, "").empty());
}

TEST_CASE("invalid UTF-8 is a separate word between separate texts") {
  const auto tokenizer = tokenizer_of(small_tokenizer());
  CHECK(ids_of(*tokenizer, "hello\xFF\xFEhello") == Ids{259, 0xFF, 0xFE, 259});
  CHECK(ids_of(*tokenizer, "\xE4\xB8") == Ids{0xE4, 0xB8});
  CHECK(ids_of(*tokenizer, "\xED\xA0\x80") == Ids{0xED, 0xA0, 0x80});  // a surrogate
  CHECK(ids_of(*tokenizer, "<|end|>\xC0<|end|>") == Ids{261, 0xC0, 261});
}

TEST_CASE("any bytes are decoded from their ids") {
  const auto tokenizer = tokenizer_of(small_tokenizer());
  std::mt19937 random(5);
  const Words pieces = {"hello", " w", "<|end|>", "<|", "é", "漢", "\n", "  ", "1", "\xFF", "\xE4", "\0x"};
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (std::size_t n = random() % 30; n > 0; --n)
      text += random() % 4 ? std::string(pieces[random() % pieces.size()])
                           : std::string(1, static_cast<char>(random()));
    CHECK(text_of(*tokenizer, ids_of(*tokenizer, text)) == text);
  }
}

TEST_CASE("an unknown id cannot be decoded") {
  nlohmann::json document = small_tokenizer();
  document["model"]["vocab"]["zz"] = 300;
  document["added_tokens"] = nlohmann::json::array();
  const auto tokenizer = tokenizer_of(document);
  CHECK(tokenizer->vocab_size() == 301);
  CHECK(text_of(*tokenizer, {300}) == "zz");
  for (const std::int32_t id : {-1, 299, 301})
    CHECK_THAT(data_error([&] { text_of(*tokenizer, {id}); }),
               ContainsSubstring("no token has the id " + std::to_string(id)));
}

TEST_CASE("concurrent threads get the same ids as one") {
  const auto tokenizer = tokenizer_of(small_tokenizer());
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "hello w" + std::to_string(i) + " é<|end|>";
  const Ids expected = ids_of(*tokenizer, text);
  std::vector<Ids> got(8);
  std::vector<std::thread> threads;
  for (Ids& ids : got)
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) ids = ids_of(*tokenizer, text);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : got) CHECK(ids == expected);
}

TEST_CASE("a long run of one kind is encoded in reasonable time") {
  const auto tokenizer = tokenizer_of(with_splits({split(R"(\s+(?!\S)|\s+|\p{L}+)")}));
  CHECK(ids_of(*tokenizer, std::string(300'000, ' ') + "x").size() == 300'001);
  CHECK(ids_of(*tokenizer, std::string(300'000, 'l')) == Ids(150'000, 257));
}

TEST_CASE("UTF-8 is validated as in the Unicode standard") {
  for (const char32_t c : {U'\0', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\xD7FF', U'\xE000', U'\xFFFF',
                           U'\x10000', U'\x10FFFF'}) {
    std::string text;
    append_utf8(c, text);
    CHECK(utf8_length(text) == text.size());
    CHECK(utf8_character(text) == c);
    CHECK(utf8_length(std::string_view(text).substr(0, text.size() - 1)) == 0);
  }
  for (const char* bad : {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\x80", "\xC3\x28"})
    CHECK(utf8_length(bad) == 0);
  CHECK(valid_utf8_prefix("abcdefghé\xFFz") == 10);
  for (std::size_t size : {0, 1, 7, 8, 63, 64, 65, 200})
    for (const char* rest : {"", "é", "\x80"}) {
      CHECK(ascii_prefix(std::string(size, 'a') + rest) == size);
      CHECK(valid_utf8_prefix(std::string(size, 'a') + rest) == size + (rest[0] == '\xC3' ? 2 : 0));
    }
  CHECK(invalid_utf8_prefix("\xFF\xE4é") == 2);
  for (const char* beginning : {"\xC2", "\xE0", "\xE0\xA0", "\xED\x9F", "\xF0", "\xF0\x90", "\xF4\x8F\xBF"}) {
    CHECK(unfinished_utf8_suffix(beginning) == std::string_view(beginning).size());
    CHECK(unfinished_utf8_suffix("é\xF0" + std::string(beginning)) == std::string_view(beginning).size());
  }
  for (const char* text : {"", "a", "é", "\xF4\x8F\xBF\xBF", "\xC1", "\xE0\x80", "\xED\xA0", "\xF4\x90",
                           "\xF5", "\x80", "\xC3("})
    CHECK(unfinished_utf8_suffix(text) == 0);
}

TEST_CASE("bytes without a token are dropped and counted") {
  json document = small_tokenizer();
  document["added_tokens"] = json::array();
  for (const int byte : {0x01, 0xC0, 0xFF})
    document["model"]["vocab"].erase(token_of_bytes(std::string(1, static_cast<char>(byte))));
  const auto tokenizer = tokenizer_of(document);
  CHECK(ids_of(*tokenizer, "he\x01llo") == Ids{256, 257, 'o'});
  CHECK(tokenizer->dropped() == 1);
  CHECK(ids_of(*tokenizer, "he\x01llo \x01 \xFF\xC0\x80") == Ids{256, 257, 'o', ' ', ' ', 0x80});
  CHECK(tokenizer->dropped() == 5);
  CHECK(tokenizer_of(small_tokenizer())->dropped() == 0);
}

TEST_CASE("a word of SentencePiece begins as characters, byte tokens or the unknown token") {
  json document = small_tokenizer();
  json& model = document["model"];
  model = {{"type", "BPE"},
           {"unk_token", "<unk>"},
           {"fuse_unk", true},
           {"byte_fallback", true},
           {"vocab", {{"<unk>", 0}, {"\u2581", 1}, {"a", 2}, {"\u2581a", 3}, {"<0xC3>", 4}, {"<0xA9>", 5}}},
           {"merges", {"\u2581 a"}}};
  document["normalizer"] = {{"type", "Sequence"},
                            {"normalizers",
                             {{{"type", "Prepend"}, {"prepend", "\u2581"}},
                              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}};
  document["pre_tokenizer"] = nullptr;
  document["added_tokens"] = json::array();
  const auto tokenizer = tokenizer_of(document);
  CHECK(ids_of(*tokenizer, "a a\u00e9xya") == Ids{3, 3, 4, 5, 0, 2});
  CHECK(text_of(*tokenizer, {3, 3, 4, 5}) == "a a\u00e9");
  CHECK(ids_of(*tokenizer, "\xC3\xFF") == Ids{4});
  CHECK(tokenizer->dropped() == 1);
  std::string text = "a";
  tokenizer->decode(Ids{3}, text);
  CHECK(text == "a a");
}

TEST_CASE("an added token takes spaces and counts as a single word as its rules say") {
  json document = small_tokenizer();
  json& token = document["added_tokens"][0];
  token["content"] = "mask";
  token["lstrip"] = true;
  token["rstrip"] = true;
  CHECK(ids_of(*tokenizer_of(document), "he \u3000mask\n he") == Ids{256, 261, 256});
  CHECK(ids_of(*tokenizer_of(document), "heamask") == Ids{256, 'a', 261});
  token["single_word"] = true;
  CHECK(ids_of(*tokenizer_of(document), "heamask") == Ids{256, 'a', 'm', 'a', 's', 'k'});
  CHECK(ids_of(*tokenizer_of(document), "mask-mask") == Ids{261, '-', 261});
}

TEST_CASE("an added token of white space that another took with its spaces counts once, in linear time") {
  json document = small_tokenizer();
  json& token = document["added_tokens"][0];
  token["content"] = "\n";
  token["lstrip"] = true;
  token["rstrip"] = true;
  CHECK(ids_of(*tokenizer_of(document), "he \n\n\nhe\n") == Ids{256, 261, 256, 261});
  CHECK(ids_of(*tokenizer_of(document), std::string(1 << 20, '\n')) == Ids{261});
}

TEST_CASE("text is normalized before it is split, and an added token may be sought in either form") {
  json document = small_tokenizer();
  document["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers", {{{"type", "NFC"}}, {{"type", "Lowercase"}}, {{"type", "Strip"}}}}};
  document["added_tokens"] = {added_token("<|END|>", 261), added_token("<|Begin|>", 262, true)};
  const auto tokenizer = tokenizer_of(document);
  CHECK(ids_of(*tokenizer, " HELLO e\u0301 ") == Ids{259, ' ', 0xC3, 0xA9});
  CHECK(ids_of(*tokenizer, "he<|END|><|end|>") == Ids{256, 261, '<', '|', 'e', 'n', 'd', '|', '>'});
  CHECK(ids_of(*tokenizer, "he<|beGIN|>") == Ids{256, 262});
}

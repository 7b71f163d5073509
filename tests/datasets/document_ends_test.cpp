// Tests what stands between documents in batches, token files and the token cache.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

#include "datasets/loader.h"
#include "datasets/open_source.h"
#include "datasets/token_files/rondo_source.h"
#include "datasets/tokenize.h"
#include "tests/datasets/control_tokenizer.h"
#include "tests/datasets/pair_tokenizer.h"
#include "tests/datasets/token_bytes.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

using Forms = std::set<std::string>;

std::unique_ptr<Tokenizer> small(const TempFolder& folder,
                                 SpecialTokens special_tokens = SpecialTokens::text) {
  folder.write("tokenizer/tokenizer.json", kControlTokenizer);
  folder.write("tokenizer/tokenizer_config.json", kBosIsEos);
  return load_tokenizer(folder.path("tokenizer"), special_tokens);
}

TokenizeOptions job_of(const TempFolder& folder, const std::string& output, const EndNames& ends) {
  TokenizeOptions job;
  job.input = folder.path("in");
  job.files = find_files(job.input).files;
  job.output = folder.path(output);
  job.ends = ends;
  return job;
}

TokenizeResult make(const TempFolder& folder, const std::string& output, const Tokenizer& tokenizer,
                    const EndNames& ends = {}) {
  return tokenize(job_of(folder, output, ends), tokenizer, [](const TokenizeProgress&) {});
}

DataState state_of(const std::string& path, const Tokenizer& tokenizer, const EndNames& ends = {}) {
  DataOptions options;
  options.path = path;
  options.seq_len = 4;
  options.text.ends = ends;
  return DataLoader(options, tokenizer).state();
}

}  // namespace

TEST_CASE("text in place has the ends that keys name, in every part of a document that is read") {
  const TempFolder folder;
  folder.write("in/a.txt", "abc");
  folder.write("in/b.txt", "d");
  const ByteTokenizer bytes;
  const auto read = [&](const EndNames& ends) {
    return read_all(*open_source(folder.path("in"), bytes, {.ends = ends}));
  };
  CHECK(read({}) == Documents{{256, 'a', 'b', 'c', 257}, {256, 'd', 257}});
  CHECK(read({"none", "auto"}) == Documents{{'a', 'b', 'c', 257}, {'d', 257}});
  CHECK(read({"auto", "none"}) == Documents{{256, 'a', 'b', 'c'}, {256, 'd'}});
  CHECK(read({"none", "none"}) == Documents{{'a', 'b', 'c'}, {'d'}});
  CHECK(read({"\n", "<bos>"}) == Documents{{'\n', 'a', 'b', 'c', 256}, {'\n', 'd', 256}});
  for (const EndNames& ends : {EndNames{}, EndNames{"none", "auto"}, EndNames{"none", "none"}}) {
    const auto source = open_source(folder.path("in"), bytes, {.ends = ends});
    const TokenIds whole = read_all(*source)[0];
    for (std::int64_t begin = 0; begin < std::ssize(whole); ++begin)
      for (std::int64_t end = begin + 1; end <= std::ssize(whole); ++end) {
        TokenIds part(static_cast<std::size_t>(end - begin));
        source->read(0, begin, end, part.data());
        CHECK(part == TokenIds(whole.begin() + begin, whole.begin() + end));
      }
  }
}

TEST_CASE("a tokenizer whose BOS is EOS puts one separator between two documents") {
  const TempFolder folder;
  folder.write("in/a.txt", "hello");
  folder.write("in/b.txt", "he");
  const auto tokenizer = small(folder);
  const auto source = open_source(folder.path("in"), *tokenizer);
  CHECK(read_all(*source) == Documents{{10, 2, 2, 3, 11}, {10, 11}});
  CHECK(source->counts().ends == Forms{"text <|end|>"});
}

TEST_CASE("text that spells a control token stays text unless the key says token, and the count is kept") {
  const TempFolder folder;
  folder.write("in/a.txt", "<|end|>he<|end|>");
  folder.write("in/b.txt", "he<|end|>");
  for (const SpecialTokens rule : {SpecialTokens::text, SpecialTokens::token}) {
    const auto tokenizer = small(folder, rule);
    for (int start = 0; start < 2; ++start) {  // the second reads the cache
      const auto source = open_source(folder.path("in"), *tokenizer);
      CHECK(source->counts().spelled == 3);
      const Documents documents = read_all(*source);
      if (rule == SpecialTokens::token)
        CHECK(documents == Documents{{11, 10, 11, 11}, {10, 11, 11}});
      else
        CHECK(std::count(documents[0].begin(), documents[0].end(), 11) == 1);
    }
    const std::string name(name_of(rule));
    CHECK(make(folder, name + ".tokens", *tokenizer).spelled == 3);
    CHECK(open_source(folder.path(name + ".tokens"), *tokenizer)->counts().spelled == 3);
  }
  CHECK_THAT(data_error([&] { open_source(folder.path("token.tokens"), *small(folder)); }),
             ContainsSubstring("token.tokens: text that spells a control token became the token there, but "
                               "training.special_tokens is \"text\". Set it to \"token\""));
  CHECK_FALSE(open_source(folder.path("in"), ByteTokenizer())->counts().spelled.has_value());
}

TEST_CASE("kept parts and shards keep the count of spelled control tokens") {
  const TempFolder folder;
  for (int i = 0; i < 20; ++i)
    folder.write("in/" + std::to_string(i) + ".txt", "hello <|end|> " + std::to_string(i));
  const auto tokenizer = small(folder);
  TokenizeOptions job = job_of(folder, "s.tokens", {});
  job.part_bytes = 50;
  job.shard_tokens = 30;
  const TokenizeResult result = tokenize(job, *tokenizer, [](const TokenizeProgress&) {});
  CHECK(result.spelled == 20);
  REQUIRE(result.files.size() > 2);
  CHECK(open_source(folder.path("s-*.tokens"), *tokenizer)->counts().spelled == 20);
}

TEST_CASE("a token file says its ends, and keys that contradict it are refused") {
  const TempFolder folder;
  folder.write("in/a.txt", "hello");
  const ByteTokenizer bytes;
  make(folder, "bare.tokens", bytes, {"none", "none"});
  make(folder, "end.tokens", bytes, {"none", "\n"});
  CHECK(read_all(*open_source(folder.path("bare.tokens"), bytes)) == Documents{{'h', 'e', 'l', 'l', 'o'}});
  const auto source = open_source(folder.path("end.tokens"), bytes, {.ends = {"none", "\n"}});
  CHECK(source->counts().ends == Forms{"text \"\\n\""});
  const auto refusal = [&](const EndNames& ends) {
    return data_error([&] { open_source(folder.path("end.tokens"), bytes, {.ends = ends}); });
  };
  CHECK_THAT(refusal({"<bos>", "auto"}),
             ContainsSubstring("end.tokens: has nothing before each document, but training.document_begin is "
                               "\"<bos>\". Set it to \"auto\""));
  CHECK_THAT(refusal({"auto", "none"}),
             ContainsSubstring("has \"\\n\" after each document, but training.document_end "
                               "is \"none\""));
  CHECK_THAT(refusal({"auto", "<eox>"}), ContainsSubstring("did you mean <eos>?"));
}

TEST_CASE("files of other programs are read as they are, and llm.c's say what begins a document") {
  const TempFolder folder;
  folder.write("a.bin", bytes_of_ids<std::uint16_t>({1, 2, 3}));
  folder.write("a.idx", megatron_index({{1, 2, 3}}, 8, 2));
  folder.write("l.bin", llmc_bytes({50256, 7}));
  CHECK(open_source(folder.path("a.bin"), PairTokenizer(), {.ends = {"none", "none"}})->counts().ends ==
        Forms{"as the Megatron-LM files have them"});
  CHECK_THAT(data_error([&] {
               open_source(folder.path("l.bin"), PairTokenizer(), {.ends = {"none", "auto"}});
             }),
             ContainsSubstring("before each document, but training.document_begin is \"none\""));
}

TEST_CASE("other ends are another token file and another data set, and those of earlier versions are not") {
  const TempFolder folder;
  folder.write("in/a.jsonl", "{\"text\": \"hello hello\"}\n{\"text\": \"aabb\"}\n");
  const PairTokenizer pairs;
  std::set<std::string> files;
  std::set<std::uint64_t> data;
  for (const EndNames& ends :
       {EndNames{}, EndNames{"none", "auto"}, EndNames{"auto", "none"}, EndNames{"<end>", "<begin>"}}) {
    files.insert(
        cached_tokens(folder.path("in"), find_files(folder.path("in")).files, pairs, {.ends = ends}));
    data.insert(state_of(folder.path("in"), pairs, ends).fingerprint);
  }
  CHECK(files.size() == 4);
  CHECK(data.size() == 4);
  CHECK(state_of(folder.path("in"), pairs, {"<begin>", "<end>"}) == state_of(folder.path("in"), pairs));
  // The bytes of an earlier version, with its header.
  folder.write("old.tokens", rondo_bytes({{256, 1, 2, 3, 4, 257}, {256, 257}}));

  CHECK(open_source(folder.path("old.tokens"), ByteTokenizer())->identity() == "byte 0000000000000000");
}

TEST_CASE("unfinished parts with other ends are written again") {
  const TempFolder folder;
  folder.write("in/a.txt", "hello");
  std::filesystem::create_directories(folder.path("out.tokens"));  // the run stops at the rename
  std::filesystem::create_directories(folder.path(".out.tokens.parts"));
  const ByteTokenizer bytes;
  error_of([&] { make(folder, "out.tokens", bytes); });
  std::filesystem::remove(folder.path("out.tokens"));
  CHECK(make(folder, "out.tokens", bytes, {"none", "auto"}).kept_parts == 0);
  CHECK(read_all(*open_source(folder.path("out.tokens"), bytes)) ==
        Documents{{'h', 'e', 'l', 'l', 'o', 257}});
}

TEST_CASE("attention ends with a document, whatever stands between documents") {
  const TempFolder folder;
  folder.write("in/a.txt", "abc");
  folder.write("in/b.txt", "defg");
  for (const EndNames& ends :
       {EndNames{}, EndNames{"auto", "none"}, EndNames{"none", "auto"}, EndNames{"none", "none"}}) {
    DataOptions options;
    options.path = folder.path("in");
    options.seq_len = 6;
    options.shuffle = false;
    options.document_attention = true;
    options.text.ends = ends;
    const Batch batch = DataLoader(options, ByteTokenizer()).next().microbatches[0];
    const std::int32_t second = 3 + (ends.begin != "none") + (ends.end != "none");
    CHECK(batch.cu_seqlens[1] == second);
    CHECK(batch.positions[static_cast<std::size_t>(second)] == 0);
    CHECK(batch.labels[static_cast<std::size_t>(second) - 1] == kIgnoreLabel);
  }
}

#include "datasets/tokenize.h"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>

#include "datasets/loader.h"
#include "datasets/open_source.h"
#include "datasets/token_files/rondo_source.h"
#include "tests/datasets/pair_tokenizer.h"
#include "tests/datasets/token_bytes.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

void write_documents(const TempFolder& folder, int count) {
  std::mt19937 random(7);
  for (int i = 0; i < count; ++i) {
    std::string text(1 + random() % 400, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    folder.write("in/" + std::to_string(i) + ".txt", text);
  }
  folder.write("in/x.jsonl", "{\"text\": \"one\\ntwo\"}\n{\"text\": \"three\"}\n");
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TokenizeResult run(const TempFolder& folder, const std::string& output, int threads, std::int64_t part_bytes,
                   const Tokenizer& tokenizer, std::int64_t shard_tokens = 0) {
  TokenizeOptions options;
  options.input = folder.path("in");
  options.files = find_files(options.input).files;
  options.output = folder.path(output);
  options.threads = threads;
  options.part_bytes = part_bytes;
  options.shard_tokens = shard_tokens;
  return tokenize(options, tokenizer, [](const TokenizeProgress&) {});
}

}  // namespace

TEST_CASE("training on tokenized text equals training on the text, sample by sample") {
  const TempFolder folder;
  write_documents(folder, 60);
  const ByteTokenizer tokenizer;
  run(folder, "out.tokens", 2, 1000, tokenizer);
  DataOptions options;
  options.seq_len = 37;
  options.local_batch = 3;
  options.document_attention = true;
  options.holdout_fraction = 0.2;
  for (const Split split : {Split::train, Split::validation}) {
    options.split = split;
    options.path = folder.path("in");
    DataLoader text(options, tokenizer);
    options.path = folder.path("out.tokens");
    DataLoader tokens(options, tokenizer);
    CHECK(text.summary().documents == tokens.summary().documents);
    CHECK(text.summary().tokens == tokens.summary().tokens);
    for (int step = 0; step < 300; ++step) {
      const Batch a = text.next().microbatches[0], b = tokens.next().microbatches[0];
      REQUIRE(a.tokens == b.tokens);
      REQUIRE(a.labels == b.labels);
      REQUIRE(a.cu_seqlens == b.cu_seqlens);
    }
  }
}

TEST_CASE("the output has the same bytes for any threads and parts, and its shards concatenate to it") {
  const TempFolder folder;
  write_documents(folder, 50);
  const PairTokenizer tokenizer;
  const TokenizeResult result = run(folder, "one.tokens", 1, 1 << 20, tokenizer);
  CHECK(result.documents == 52);
  CHECK(result.files == std::vector{folder.path("one.tokens")});
  const std::string expected = contents(folder.path("one.tokens"));
  for (const int threads : {1, 2, 5}) {
    for (const std::int64_t part : {1, 700, 5000}) {
      run(folder, "other.tokens", threads, part, tokenizer);
      REQUIRE(contents(folder.path("other.tokens")) == expected);
      CHECK_FALSE(std::filesystem::exists(folder.path(".other.tokens.parts")));
      std::filesystem::remove(folder.path("other.tokens"));
    }
  }
  const TokenizeResult shards = run(folder, "s.tokens", 2, 700, tokenizer, 1500);
  REQUIRE(shards.files.size() > 2);
  CHECK(shards.files[1] == folder.path("s-00001-of-0000" + std::to_string(shards.files.size()) + ".tokens"));
  Documents joined;
  for (const std::string& path : shards.files) {
    const auto file = open_rondo_tokens({path, ""}, {});
    file->verify();
    if (path != shards.files.back()) CHECK(file->total_tokens() >= 1500);
    for (TokenIds& ids : read_all(*file)) joined.push_back(std::move(ids));
  }
  const auto whole = open_rondo_tokens({folder.path("one.tokens"), ""}, {});
  CHECK(whole->id_type() == IdType::u32);
  CHECK(whole->tokenizer() == "pairs");
  CHECK(joined == read_all(*whole));
  CHECK(joined[0].front() == 100'510);
  CHECK(joined[0].back() == 100'511);
}

TEST_CASE("a tokenizer without BOS puts EOS alone around a document") {
  const TempFolder folder;
  folder.write("in/a.txt", "aab");
  const PairTokenizer tokenizer(std::nullopt);
  const TokenizeResult result = run(folder, "out.tokens", 1, 1 << 20, tokenizer);
  CHECK(result.tokens == 3);
  const auto file = open_rondo_tokens({folder.path("out.tokens"), ""}, {});
  CHECK(read_all(*file) == Documents{{100'097, 'b', 100'511}});
  CHECK(dynamic_cast<RondoTokens&>(*file).header().begin == -1);
}

TEST_CASE(
    "complete parts of an earlier run are kept, damaged parts and parts of another input are written again") {
  const TempFolder folder;
  write_documents(folder, 30);
  const ByteTokenizer tokenizer;
  run(folder, "one.tokens", 1, 500, tokenizer);
  // The run stops at the rename of its output, with all parts written.
  std::filesystem::create_directories(folder.path("two.tokens"));
  const auto stopped = [&] { return error_of([&] { run(folder, "two.tokens", 2, 500, tokenizer); }); };
  std::filesystem::create_directories(folder.path(".two.tokens.parts"));
  CHECK_THAT(stopped(),
             ContainsSubstring("6: cannot rename ") && ContainsSubstring("two.tokens: Is a directory"));
  CHECK_FALSE(std::filesystem::exists(folder.path(".two.tokens.part")));
  std::int64_t parts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path(".two.tokens.parts")))
    parts += entry.path().filename().string().starts_with("part-");
  REQUIRE(parts > 5);
  std::filesystem::remove(folder.path("two.tokens"));
  std::filesystem::resize_file(folder.path(".two.tokens.parts/part-000001.tokens"), 300);
  folder.write(".two.tokens.parts/part-000002.tokens", "torn");
  CHECK(run(folder, "two.tokens", 2, 500, tokenizer).kept_parts == parts - 2);
  CHECK(contents(folder.path("two.tokens")) == contents(folder.path("one.tokens")));

  std::filesystem::remove(folder.path("two.tokens"));
  std::filesystem::create_directories(folder.path("two.tokens"));
  std::filesystem::create_directories(folder.path(".two.tokens.parts"));
  stopped();
  std::filesystem::remove(folder.path("two.tokens"));
  folder.write("in/0.txt", "changed");
  CHECK(run(folder, "two.tokens", 2, 500, tokenizer).kept_parts == 0);
  CHECK(contents(folder.path("two.tokens")) != contents(folder.path("one.tokens")));
}

TEST_CASE("tokenize refuses an existing output, an invalid name, tokens as input and input without text") {
  const TempFolder folder;
  write_documents(folder, 3);
  const ByteTokenizer tokenizer;
  const auto refused = [&](const std::string& output) {
    return error_of([&] { run(folder, output, 1, 500, tokenizer); });
  };
  CHECK(refused("a.tokens") == "no error");
  CHECK(refused("a.tokens") ==
        "2: " + folder.path("a.tokens") + " exists already: remove it, or name another output");
  CHECK_THAT(refused("a.bin"), ContainsSubstring("must be a file name that ends with .tokens"));
  CHECK_THAT(refused("no/a.tokens"),
             ContainsSubstring("6: cannot write ") && ContainsSubstring("No such file"));
  folder.write("in/y.tokens", rondo_bytes({{1}}));
  CHECK_THAT(refused("b.tokens"),
             ContainsSubstring("4: ") && ContainsSubstring("y.tokens: is a token file, not text"));
  std::filesystem::remove_all(folder.path("in"));
  folder.write("in/empty.txt", "");
  CHECK_THAT(refused("b.tokens"), ContainsSubstring("no document in 1 files (0 binary, 1 empty)"));
}

TEST_CASE("a token file of another tokenizer is refused") {
  const TempFolder folder;
  write_documents(folder, 10);
  const PairTokenizer pairs;
  DataOptions options;
  options.seq_len = 8;
  run(folder, "in.tokens", 1, 500, pairs);
  options.path = folder.path("in.tokens");
  CHECK(DataLoader(options, pairs).summary().documents == 12);
  CHECK_THAT(data_error([&] { DataLoader(options, ByteTokenizer()); }),
             ContainsSubstring("written with the tokenizer pairs, but training.tokenizer is byte"));
}

TEST_CASE("files of one data set are one source, and a list may mix text and tokens") {
  const TempFolder folder;
  const Documents documents = {{1, 2, 3}, {4, 5}};
  folder.write("m/a.bin", bytes_of_ids<std::uint16_t>(flat(documents)));
  folder.write("m/a.idx", megatron_index(documents, 8, 2));
  folder.write("m/b.ds", bytes_of_ids<std::uint16_t>(flat(documents)));
  folder.write("m/b.ds.index", ends_of(documents));
  folder.write("m/b.ds.metadata", "gpt2|2\n5\n5 T\n");
  folder.write("m/text/c.txt", "A");
  folder.write("m/d.tokens", rondo_bytes(documents));
  folder.write("m/text/e.bin", std::string(1, '\0'));
  const ByteTokenizer tokenizer;
  CHECK_THAT(data_error([&] { open_source(folder.path("m"), tokenizer); }),
             ContainsSubstring("holds several data formats: 2 Megatron-LM"));
  const auto source =
      open_source(fmt::format("{0}/a.*,{0}/b.*,{0}/text,{0}/d.tokens", folder.path("m")), tokenizer);
  CHECK(read_all(*source) ==
        Documents{{1, 2, 3}, {4, 5}, {1, 2, 3}, {4, 5}, {256, 'A', 257}, {1, 2, 3}, {4, 5}});
  CHECK(source->counts().skipped_binary == 1);
  for (const char* name : {"m/a.idx", "m/a.bin", "m/b.ds.index", "m/b.ds"})
    CHECK(read_all(*open_source(folder.path(name), tokenizer)) == documents);
}

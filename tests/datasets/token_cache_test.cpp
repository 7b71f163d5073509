#include "datasets/token_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <thread>

#include "datasets/loader.h"
#include "datasets/open_source.h"
#include "datasets/select_files.h"
#include "tests/datasets/pair_tokenizer.h"
#include "tests/datasets/token_bytes.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

std::string tokens_of(const TempFolder& folder, const Tokenizer& tokenizer, const TextOptions& options = {}) {
  const std::string paths = folder.path("text");
  return cached_tokens(paths, find_files(paths).files, tokenizer, options);
}

// Counts files, without the lock.
std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::count_if(fs::directory_iterator(folder), fs::directory_iterator(),
                    [](const fs::directory_entry& entry) { return entry.path().filename() != ".lock"; }));
}

}  // namespace

TEST_CASE("text is tokenized once, next to the data, and read as a token file") {
  const TempFolder folder;
  folder.write("text/a.jsonl", "{\"text\": \"aab\"}\n");
  folder.write("text/b.jsonl", "{\"text\": \"ccc\"}\n");
  const PairTokenizer tokenizer;
  const std::string tokens = tokens_of(folder, tokenizer);
  CHECK(fs::path(tokens).parent_path() == folder.path(".rondo-tokens"));
  CHECK(fs::path(tokens).filename().string().starts_with("text-"));
  const auto time = fs::last_write_time(tokens);
  CHECK(tokens_of(folder, tokenizer) == tokens);
  CHECK(fs::last_write_time(tokens) == time);
  CHECK(files_in(folder.path(".rondo-tokens")) == 1);
  const auto source = open_source(folder.path("text"), tokenizer);
  CHECK(read_all(*source) == Documents{{100'510, 100'097, 'b', 100'511}, {100'510, 100'099, 'c', 100'511}});
}

TEST_CASE("another text, tokenizer or text_key is another token file") {
  const TempFolder folder;
  folder.write("text/a.jsonl", "{\"text\": \"aab\", \"body\": \"xyz\"}\n");
  const std::string first = tokens_of(folder, PairTokenizer());
  CHECK(tokens_of(folder, PairTokenizer(), {.text_key = "body"}) != first);
  CHECK(tokens_of(folder, ByteTokenizer()) != first);
  folder.write("text/a.jsonl", "{\"text\": \"aaa\", \"body\": \"xyz\"}\n{\"text\": \"b\"}\n");
  const std::string changed = tokens_of(folder, PairTokenizer());
  CHECK(changed != first);
  folder.write("text/b.txt", "b");
  CHECK(tokens_of(folder, PairTokenizer()) != changed);
  CHECK(files_in(folder.path(".rondo-tokens")) == 5);
}

TEST_CASE("the name of a token file is that of earlier versions, unless the text is read in another way") {
  const TempFolder folder;
  const auto number = [&](const std::string& inputs) {
    const std::uint64_t files = files_hash(find_files(folder.path("text")).files);
    return fmt::format("text-{:016x}.tokens", mix64(stable_hash(inputs) ^ files));
  };
  const auto name = [&](const TextOptions& options) {
    const std::string tokens = cached_tokens(
        folder.path("text"), select_files(folder.path("text"), "text").files, PairTokenizer(), options);
    return fs::path(tokens).filename().string();
  };
  folder.write("text/a.jsonl", "{\"text\": \"aab\"}\n");
  CHECK(name({}) == number("1 pairs text"));
  CHECK(name({.on_bad_record = OnBadRecord::skip}) == number("1 pairs text skip"));
  fs::rename(folder.path("text/a.jsonl"), folder.path("text/a.json"));  // was read as prose
  CHECK(name({}) != number("1 pairs text"));
}

TEST_CASE("another text of the same size and time is tokenized again") {
  const TempFolder folder;
  const std::string text = folder.write("text/a.jsonl", "{\"text\": \"aab\"}\n");
  const auto time = fs::last_write_time(text);
  const std::string tokens = tokens_of(folder, PairTokenizer());
  folder.write("text/a.jsonl", "{\"text\": \"ccc\"}\n");
  fs::last_write_time(text, time);
  CHECK(tokens_of(folder, PairTokenizer()) != tokens);
}

TEST_CASE("a damaged token file is made again, wherever it is damaged") {
  const TempFolder folder;
  folder.write("text/a.txt", std::string(500, 'a'));
  const PairTokenizer tokenizer;
  const std::string tokens = tokens_of(folder, tokenizer),
                    name = fs::relative(tokens, folder.path("")).string();
  const std::string intact = text_of(tokens);
  const auto check_again = [&](const std::string& bytes) {
    folder.write(name, bytes);
    CHECK(tokens_of(folder, tokenizer) == tokens);
    CHECK(text_of(tokens) == intact);
  };
  for (std::size_t at = 0; at < intact.size(); at += 100) {
    std::string bytes = intact;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    check_again(bytes);
    check_again(intact.substr(0, at));
  }
  check_again(intact + "\n");
  fs::remove(tokens);
  REQUIRE(::mkfifo(tokens.c_str(), 0600) == 0);
  CHECK(tokens_of(folder, tokenizer) == tokens);
  CHECK(text_of(tokens) == intact);
}

TEST_CASE("tokens that another user made are refused, but not tokens of the owner of the text") {
  if (::geteuid() != 0) SKIP("only root can give files away");
  constexpr uid_t kOther = 65534;
  const TempFolder folder;
  const std::string text = folder.write("text/a.txt", "aab");
  const PairTokenizer tokenizer;
  const std::string tokens = tokens_of(folder, tokenizer), kept = folder.path(".rondo-tokens");
  const auto refusal = [&] {
    try {
      tokens_of(folder, tokenizer);
      return std::string();
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::environment);
      return std::string(error.what());
    }
  };
  for (const std::string& path : {tokens, kept}) {
    REQUIRE(::chown(path.c_str(), kOther, kOther) == 0);
    CHECK_THAT(refusal(),
               ContainsSubstring(path + " decides what is trained, and belongs to the user 65534"));
    REQUIRE(::chown(text.c_str(), kOther, kOther) == 0);
    CHECK(refusal() == "");
    REQUIRE(::chown(text.c_str(), 0, 0) == 0);
    REQUIRE(::chown(path.c_str(), 0, 0) == 0);
  }
  fs::create_directories(kept + "/." + fs::path(tokens).filename().string() + ".parts");
  fs::remove(tokens);
  REQUIRE(::chown((kept + "/." + fs::path(tokens).filename().string() + ".parts").c_str(), kOther, kOther) ==
          0);
  CHECK_THAT(refusal(), ContainsSubstring("belongs to another user, who could choose the tokens"));
}

TEST_CASE("a relative pattern without a folder has its tokens next to the folder, as ./* has") {
  const TempFolder folder;
  folder.write("text/a.txt", "aab");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path("text"));
  for (const char* pattern : {"*.txt", "./*.txt", "?.txt", "[a].txt"}) {
    const std::string tokens = cached_tokens(pattern, find_files(pattern).files, PairTokenizer(), {});
    CHECK(fs::path(tokens).parent_path() == folder.path(".rondo-tokens"));
  }
  fs::current_path(before);
}

TEST_CASE("a run that finds its tokens in the cache warns of what was left out, as the first run did") {
  const TempFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"text\": \"aab\"}\n{\"text\": 7}\n");
  const TextOptions skip = {.on_bad_record = OnBadRecord::skip};
  for (int run = 0; run < 2; ++run)
    CHECK(open_source(path, PairTokenizer(), skip)->counts().warnings ==
          std::vector<std::string>{
              "bad records skipped: 1, the field \"text\" is not a string; the first is " + path + ":2:10"});
  folder.write("a.jsonl", "{\"text\": \"aab\"}\n");
  CHECK(open_source(path, PairTokenizer(), skip)->counts().warnings.empty());
}

TEST_CASE("concurrent processes write one token file, and a process that does not tokenize waits") {
  const TempFolder folder;
  for (int i = 0; i < 20; ++i) folder.write("text/" + std::to_string(i) + ".txt", std::string(5'000, 'a'));
  const PairTokenizer tokenizer;
  std::vector<std::string> tokens(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      threads.emplace_back([&, i] { tokens[i] = tokens_of(folder, tokenizer, {.makes_cache = i >= 2}); });
  }
  for (const std::string& path : tokens) CHECK(path == tokens[0]);
  CHECK(files_in(folder.path(".rondo-tokens")) == 1);
}

TEST_CASE("token_cache sets the folder of the token files, and a folder that cannot be written is an error") {
  const TempFolder folder;
  folder.write("text/a.txt", "aab");
  folder.write("file", "");
  const PairTokenizer tokenizer;
  const std::string tokens = tokens_of(folder, tokenizer, {.token_cache = folder.path("kept/here")});
  CHECK(fs::path(tokens).parent_path() == folder.path("kept/here"));
  CHECK_FALSE(fs::exists(folder.path(".rondo-tokens")));
  try {
    tokens_of(folder, tokenizer, {.token_cache = folder.path("file")});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::environment);
    CHECK_THAT(error.what(), ContainsSubstring("set training.token_cache to a folder that can be written"));
  }
}

TEST_CASE("a folder of tokens may contain binary files, with any tokenizer") {
  const TempFolder folder;
  folder.write("m/a.tokens", rondo_bytes({{1, 2}, {3}}, "pairs", 100'512));
  folder.write("m/b.dat", std::string(9, '\0'));
  CHECK(read_all(*open_source(folder.path("m"), PairTokenizer())) == Documents{{1, 2}, {3}});
}

TEST_CASE("validation holds out the same documents of text with every tokenizer") {
  const TempFolder folder;
  for (int i = 0; i < 50; ++i) folder.write("text/" + std::to_string(i) + ".txt", "abcabcabcabc");
  DataOptions options;
  options.path = folder.path("text");
  options.seq_len = 4;
  options.holdout_fraction = 0.3;
  options.split = Split::validation;
  const PairTokenizer pairs;
  const ByteTokenizer bytes;
  const std::int64_t held_out = DataLoader(options, bytes).summary().documents;
  CHECK(held_out > 5);
  CHECK(DataLoader(options, pairs).summary().documents == held_out);
}

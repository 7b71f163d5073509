#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "apps/worker_options.h"
#include "support/error.h"

namespace {

struct TokenFile {
  explicit TokenFile(const std::string& text)
      : path(std::filesystem::temp_directory_path() / ("rondo_tokens_" + std::to_string(getpid()))) {
    std::ofstream(path) << text;
  }
  ~TokenFile() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

// The message without the file's name.
std::string refusal(const std::string& text, std::size_t shortest = 1) {
  const TokenFile file(text);
  try {
    rondo::read_sequences(file.path, shortest);
  } catch (const rondo::Error& error) {
    CHECK(error.code() == rondo::ExitCode::data);
    const std::string message = error.what();
    REQUIRE(message.starts_with(file.path.string()));
    return message.substr(file.path.string().size());
  }
  return "";
}

std::string usage(const std::vector<std::string>& args) {
  try {
    rondo::read_logits_options(args);
  } catch (const rondo::Error& error) {
    CHECK(error.code() == rondo::ExitCode::usage);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("token ids are read one sequence a line, whatever blanks stand between them") {
  const TokenFile file("1 2 3\n \t40  50\t60 \r\n7 8 9");
  CHECK(rondo::read_sequences(file.path, 1) == rondo::Sequences{{1, 2, 3}, {40, 50, 60}, {7, 8, 9}});
}

TEST_CASE("what is no token id is named with line and column") {
  const std::string rule = " is not a token id; write integers >= 0, separated by blanks";
  CHECK(refusal("1 2\n3 x4\n") == ":2:3: \"x4\"" + rule);
  CHECK(refusal("1 -2\n") == ":1:3: \"-2\"" + rule);
  CHECK(refusal("1,2\n") == ":1:1: \"1,2\"" + rule);
  CHECK(refusal("1 2.0\n") == ":1:3: \"2.0\"" + rule);
  CHECK(refusal("99999999999999999999\n") == ":1:1: \"99999999999999999999\"" + rule);
}

TEST_CASE("sequences of different lengths, empty ones and none are refused") {
  CHECK(refusal("1 2\n3\n") ==
        ":2: 1 token ids, but line 1 has 2; logits are one tensor [B, T, V]; put sequences of other lengths "
        "into other files");
  CHECK(refusal("1 2\n\n3 4\n") == ":2: 0 token ids; a sequence needs at least 1");
  CHECK(refusal("5\n", 2) == ":1: 1 token ids; a sequence needs at least 2 (--gradients needs a next token)");
  CHECK(refusal("") == ": no token ids; write one sequence per line");
}

TEST_CASE("a file of tokens that is not there is an error of the data") {
  try {
    rondo::read_sequences("/nowhere/tokens.txt", 1);
    FAIL("read");
  } catch (const rondo::Error& error) {
    CHECK(error.code() == rondo::ExitCode::data);
    CHECK(std::string(error.what()) ==
          "cannot read /nowhere/tokens.txt: No such file or directory; --tokens must be a text file with one "
          "sequence of token ids per line");
  }
}

TEST_CASE("an id beyond the vocabulary is named with the largest there is") {
  rondo::check_vocabulary({{0, 9}}, 10, "t");
  try {
    rondo::check_vocabulary({{0, 9}, {3, 10}}, 10, "t");
    FAIL("accepted");
  } catch (const rondo::Error& error) {
    CHECK(error.code() == rondo::ExitCode::data);
    CHECK(std::string(error.what()) ==
          "t:2: token id 10 exceeds the largest id; the model's vocab_size is 10, so ids end at 9");
  }
}

TEST_CASE("a missing flag of logits is named") {
  CHECK(usage({"folder", "--out", "o"}) ==
        "logits: --tokens is missing; `rondo logits --help` lists the flags");
  CHECK(usage({"--tokens", "t", "--out", "o"}) ==
        "logits: FROM is missing; `rondo logits --help` lists the flags");
  const auto options = rondo::read_logits_options({"folder", "--out", "o", "--tokens", "t"});
  REQUIRE(options);
  CHECK(options->folder == "folder");
  CHECK(options->gradients.empty());
}

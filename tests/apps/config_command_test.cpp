// The process: exit codes and which stream the text goes to.
#include <sys/wait.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdio>

#include "tests/trainer/config/config_texts.h"

using Catch::Matchers::ContainsSubstring;

namespace {

struct Outcome {
  int code;
  std::string text;  // of both streams, or of stdout alone
};

Outcome rondo_says(const std::string& words, bool with_errors = true) {
  const std::string command = RONDO_BINARY_DIR "/rondo " + words + (with_errors ? " 2>&1" : " 2>/dev/null");
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome{0, ""};
  std::array<char, 4096> buffer;
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.text.append(buffer.data(), count);
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

const std::string kDebug = RONDO_SOURCE_DIR "/configs/llama3_debug.toml";

}  // namespace

TEST_CASE("rondo config check says valid or ends with exit 3") {
  const Outcome valid = rondo_says("config check " + kDebug, false);
  CHECK(valid.code == 0);
  CHECK_THAT(valid.text, ContainsSubstring("valid"));
  const Outcome bad = rondo_says("config check " + kDebug + " --training.stps=1");
  CHECK(bad.code == 3);
  CHECK(bad.text ==
        "rondo: error: command line: --training.stps=1: unknown key (did you mean training.steps?)\n");
  CHECK(rondo_says("config check nothing.toml").code == 3);
  CHECK(rondo_says("config").code == 2);
  CHECK(rondo_says("config check").code == 2);
  CHECK_THAT(rondo_says("config chek x").text, ContainsSubstring("did you mean check?"));
}

TEST_CASE("rondo config resolve prints a file that resolves to itself") {
  const Outcome once = rondo_says("config resolve " + kDebug + " --training.steps 300", false);
  REQUIRE(once.code == 0);
  const rondo::TomlFile file(once.text);
  const Outcome twice = rondo_says("config resolve " + file.path(), false);
  CHECK(twice.code == 0);
  CHECK(twice.text == once.text);
}

TEST_CASE("rondo train refuses a bad configuration and prints its help without the worker") {
  const Outcome bad = rondo_says("train --job.config_file " + kDebug + " --training.steps=0");
  CHECK(bad.code == 3);
  CHECK_THAT(bad.text, ContainsSubstring("--training.steps=0: must be at least 1"));
  const Outcome help = rondo_says("train --help", false);
  CHECK(help.code == 0);
  CHECK_THAT(help.text, ContainsSubstring("lr_scheduler"));
}

TEST_CASE("rondo help answers on stdout and ends with exit 2 for what does not exist") {
  const Outcome key = rondo_says("help training.steps", false);
  CHECK(key.code == 0);
  CHECK_THAT(key.text, ContainsSubstring("optimizer steps of the run"));
  CHECK(rondo_says("help training.stps").code == 2);
  CHECK(rondo_says("help a b").code == 2);
}

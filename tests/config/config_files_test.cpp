// Several files, files that include others, and where each value came from.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "config/dump.h"
#include "tests/config/config_texts.h"

using Catch::Matchers::ContainsSubstring;
using rondo::JobConfig;
using rondo::load_config;
using rondo::message_of;
using rondo::TomlFile;

namespace {

std::string name_of(const TomlFile& file) { return std::filesystem::path(file.path()).filename().string(); }

}  // namespace

TEST_CASE("of several files the last wins, and flags win over all, wherever they stand") {
  const TomlFile a("training.steps = 300\ntraining.seq_len = 64\n"), b("training.steps = 400\n");
  CHECK(load_config({a.path(), b.path()}).training.steps == 400);
  CHECK(load_config({b.path(), a.path()}).training.steps == 300);
  CHECK(load_config({"--job.config_file", b.path(), "--training.steps=500", a.path()}).training.steps == 500);
  CHECK(load_config({a.path(), b.path()}).training.seq_len == 64);
  CHECK(message_of("training.steps = 0\n", {"--training.steps=5"}).empty());
  CHECK_FALSE(message_of("training.steps = 5\n", {"--training.steps=0"}).empty());
}

TEST_CASE("a file wins over those that it includes, whose paths are relative to it") {
  const TomlFile site("training.steps = 300\ntraining.seq_len = 64\n");
  const TomlFile run("training.seq_len = 32\ninclude = [\"" + name_of(site) + "\"]\n");
  const TomlFile outer("include = [\"./" + name_of(run) + "\"]\n");
  const JobConfig config = load_config({outer.path()});
  CHECK(config.training.steps == 300);
  CHECK(config.training.seq_len == 32);
  CHECK_THAT(message_of("include = [\"nowhere.toml\"]\n"),
             ContainsSubstring("x.toml:1:1: include = [\"nowhere.toml\"]: "
                               "cannot read"));
  CHECK_THAT(message_of("include = \"site.toml\"\n"), ContainsSubstring("must be a list of files"));
}

TEST_CASE("files that include each other are refused with the circle") {
  const TomlFile a("");
  const TomlFile b("include = [\"" + name_of(a) + "\"]\n");
  std::ofstream(a.path()) << "include = [\"" + name_of(b) + "\"]\n";
  try {
    load_config({a.path()});
    FAIL("no error");
  } catch (const rondo::Error& error) {
    CHECK_THAT(error.what(), ContainsSubstring("a file must not include itself: " + a.path() + " includes " +
                                               b.path() + " includes " + a.path()));
  }
}

// Under sanitizers toml++ did not end here (support/text/toml.h).
TEST_CASE("letters beyond ASCII are text in strings and wrong elsewhere") {
  const TomlFile file("job.description = \"\"\"\\\n  \u00a7 \u0436\u3042\"\"\"\n");
  CHECK(load_config({file.path()}).job.description == "\u00a7 \u0436\u3042");
  for (const char* letter : {"\u00e9", "\u0436", "\u3042"})
    CHECK_THAT(message_of("[training]\nsteps = [ " + std::string(letter) + " ]\n"),
               ContainsSubstring("x.toml:2:11: not valid TOML: "));
}

TEST_CASE("each value of the resolved file says where it came from, and the file reads back") {
  const TomlFile file("[training]\nsteps = 300\n[model]\nflavor = \"8B\"\n");
  const JobConfig config = load_config({file.path(), "--optimizer.lr=0.5"});
  const std::string text = to_annotated_toml(config);
  for (const std::string& line :
       {"\nsteps = 300  # " + file.path() + ":2:1\n", std::string("\nlr = 0.5  # --optimizer.lr=0.5\n"),
        std::string("\ndim = 4096  # flavor 8B\n"), std::string("\nbeta1 = 0.9  # default\n"),
        std::string("\n# total_steps is not set  # default\n")})
    CHECK_THAT(text, ContainsSubstring(line));
  JobConfig again = rondo::load_text(text);
  again.job.config_file = config.job.config_file;
  CHECK(again == config);
}

TEST_CASE("a resolved file with control characters in values and origins reads back") {
  const JobConfig config = load_config({"--job.description=a\x1b[2J\x7f\nb\u009b"});
  CHECK(rondo::load_text(to_annotated_toml(config)).job.description == config.job.description);
}

TEST_CASE("a key of very many parts is refused") {
  std::string key;
  for (int i = 0; i < 400'000; ++i) key += "a.";
  CHECK(message_of(key + "a = 1\n") == "x.toml:1:1: not valid TOML: a key has more than 256 parts");
}

TEST_CASE("a flag of the launcher among the keys is told where it belongs") {
  CHECK(message_of("", {"--nproc-per-node=4"}) ==
        "command line: --nproc-per-node=4: is a flag of the launcher: `rondo launch --nproc-per-node=4 -- "
        "train ...`");
}

#include <catch2/catch_test_macros.hpp>
#include <random>

#include "tests/trainer/config/config_texts.h"
#include "trainer/config/dump.h"

namespace {

// Cuts, doubles, swaps and overwrites pieces of a text, often with what means something in TOML.
std::string mutate(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t bound) {
    return bound == 0 ? 0 : std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  static const std::vector<std::string> words = {"=",
                                                 "[",
                                                 "]",
                                                 "[[",
                                                 "\"",
                                                 "'''",
                                                 ".",
                                                 "\n",
                                                 "-1",
                                                 "1e999",
                                                 "nan",
                                                 "true",
                                                 "{",
                                                 "}",
                                                 "#",
                                                 "\xff",
                                                 "\\u0000",
                                                 "0x",
                                                 "training",
                                                 "no-",
                                                 "--",
                                                 ",",
                                                 std::string(1, '\0'),
                                                 "99999999999999999999",
                                                 "2026-01-31",
                                                 "\xed\xa0\x80"};
  for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
    const std::size_t at = below(text.size() + 1), length = below(12);
    switch (below(4)) {
      case 0:
        text.erase(std::min(at, text.size()), length);
        break;
      case 1:
        text.insert(at, words[below(words.size())]);
        break;
      case 2:
        text.insert(below(text.size() + 1), text.substr(at, length));
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
    }
  }
  return text;
}

// Loads or ends in one Error(config), and what loads reads back.
bool loads(const std::vector<std::string>& args) {
  try {
    const rondo::JobConfig config = rondo::load_config(args);
    rondo::JobConfig again = rondo::load_text(to_toml(config));
    again.job.config_file = config.job.config_file;
    REQUIRE(again == config);
    return true;
  } catch (const rondo::Error& error) {
    REQUIRE(error.code() == rondo::ExitCode::config);
    REQUIRE_FALSE(std::string(error.what()).empty());
    return false;
  }
}

}  // namespace

TEST_CASE("a damaged file loads or is refused, and never more than that") {
  std::mt19937 random(1);
  const std::string whole = to_toml(rondo::load_config({}));
  int loaded = 0;
  for (int i = 0; i < 2000; ++i) {
    const rondo::TomlFile file(mutate(whole, random));
    loaded += loads({"--job.config_file=" + file.path()});
  }
  CHECK(loaded > 0);
  CHECK(loaded < 2000);
}

TEST_CASE("damaged flags load or are refused, and never more than that") {
  std::mt19937 random(2);
  const std::vector<std::string> flags = {"--training.steps=300",
                                          "--no-compile.enable",
                                          "--compile.passes=[\"a\"]",
                                          "--optimizer.lr=1e-3",
                                          "--model.flavor=8B",
                                          "--lr_scheduler.total-steps",
                                          "400",
                                          "--debug.deterministic"};
  int loaded = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> words = flags;
    std::string& word = words[random() % words.size()];
    word = mutate(word, random);
    if (random() % 4 == 0) std::swap(words[random() % words.size()], words[random() % words.size()]);
    loaded += loads(words);
  }
  CHECK(loaded > 0);
  CHECK(loaded < 3000);
}

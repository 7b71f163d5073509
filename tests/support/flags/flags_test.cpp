#include "support/flags/flags.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <optional>

#include "support/error.h"

namespace rondo {
namespace {

using Words = std::vector<std::string>;

// A command with one flag of each kind.
struct Command {
  int ranks = 1;
  std::int64_t tokens = 0;
  std::optional<double> tolerance;
  std::string dtype = "float32";
  Words passes, files, program;
  bool quiet = false;
  Flags flags{"test", "A test.", "The end."};

  Command() {
    flags.value("--ranks-per-node", "N", flag::whole(&ranks, 1, 8), "ranks");
    flags.value("--tokens", "N", flag::amount(&tokens, 1), "tokens");
    flags.value("-t,--tolerance", "REL", flag::number(&tolerance, 0), "tolerance");
    flags.value("--dtype", "NAME", flag::one_of(&dtype, {"float32", "float16", "bfloat16"}), "dtype");
    flags.value("--passes", "A,B", flag::list(&passes), "passes");
    flags.toggle("-q,--quiet", &quiet, "say nothing");
    flags.refuse("--module", "there are none");
  }
  void takes_files() { flags.positional("FILE...", flag::append(&files), "files", Need::required); }

  // "" or the message without what all have.
  std::string read(const Words& words) {
    try {
      const bool goes_on = flags.read(words);
      CHECK(goes_on);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      const std::string message = error.what(), tail = "; `rondo test --help` lists the flags";
      REQUIRE(message.starts_with("test: "));
      REQUIRE(message.ends_with(tail));
      return message.substr(6, message.size() - 6 - tail.size());
    }
    return "";
  }
};

std::string refusal(const Words& words) { return Command().read(words); }

TEST_CASE("a value follows its flag, with = or as the next word") {
  for (const Words& words :
       {Words{"--ranks-per-node", "4", "-t", "0.5", "--tokens", "3K"},
        Words{"--ranks-per-node=4", "-t0.5", "--tokens=3000"},
        Words{"--ranks_per_node", "4", "-t=0.5", "--tokens=3K"},
        Words{"--ranks_per_node=2", "--tolerance=0.5", "--ranks-per-node=4", "--tokens=3K"}}) {
    Command command;
    CHECK(command.read(words) == "");
    CHECK(command.ranks == 4);
    CHECK(command.tolerance == 0.5);
    CHECK(command.tokens == 3000);
    CHECK_FALSE(command.quiet);
  }
}

TEST_CASE("tokens have fractions, exponents and B, and are a whole number") {
  std::int64_t count = 0;
  const ReadValue read = flag::tokens(&count);
  for (const auto& [text, tokens] : {std::pair("100B", 100'000'000'000),
                                     {"2e9", 2'000'000'000},
                                     {"1.5T", 1'500'000'000'000},
                                     {"1G", 1'000'000'000},
                                     {"0.3K", 300},
                                     {"7", 7}}) {
    CHECK(read(text) == "");
    CHECK(count == tokens);
  }
  for (const char* bad : {"", "B", "0", "-1", "1.5", "1e99", "nan", "1b", "2 e9", "10000T"})
    CHECK(read(bad) == "must be a whole number of tokens from 1 to 9000T, such as 100B, 1.5T or 2e9");
}

TEST_CASE("a list is split at commas, and may be empty") {
  Command command;
  CHECK(command.read({"--passes=a,b", "-q"}) == "");
  CHECK(command.passes == Words{"a", "b"});
  CHECK(command.quiet);
  Command empty;
  empty.passes = {"default"};
  CHECK(empty.read({"--passes=", "--tokens=1"}) == "");
  CHECK(empty.passes.empty());
  CHECK(empty.tokens == 1);
}

TEST_CASE("words that are no flags stand anywhere, and after -- all are") {
  Command command;
  command.takes_files();
  CHECK(command.read({"a", "--quiet", "-", "--", "--tokens=", "--"}) == "");
  CHECK(command.files == Words{"a", "-", "--tokens=", "--"});
  CHECK(command.tokens == 0);
}

TEST_CASE("flags end at the program, whose words are left alone") {
  for (const Words& words :
       {Words{"-q", "train", "--tokens=", "--", "-t"}, Words{"-q", "--", "train", "--tokens=", "--", "-t"}}) {
    Command command;
    command.flags.program(&command.program);
    CHECK(command.read(words) == "");
    CHECK(command.program == Words{"train", "--tokens=", "--", "-t"});
    CHECK(command.quiet);
  }
}

TEST_CASE("a mistake is named with flag, value and rule") {
  CHECK(refusal({"--ranks-per-node=9"}) == "--ranks-per-node \"9\" must be a whole number from 1 to 8");
  CHECK(refusal({"--ranks_per_node=1.5"}) == "--ranks_per_node \"1.5\" must be a whole number from 1 to 8");
  for (const std::string bad : {"0", "-1", "1X", "K", "", "9300000000000000K", "99999999999999999999"})
    CHECK(refusal({"--tokens=" + bad}) ==
          "--tokens \"" + bad + "\" must be a whole number from 1 on, such as 8 or 100M");
  for (const std::string bad : {"-1", "nan", "inf", "1x", ""})
    CHECK(refusal({"--tolerance=" + bad}) == "--tolerance \"" + bad + "\" must be a number from 0 on");
  CHECK(refusal({"--dtype=bfloat"}) ==
        "--dtype \"bfloat\" must be float32, float16 or bfloat16 (did you mean bfloat16?)");
  CHECK(refusal({"--tokenz", "3"}) == "unknown flag --tokenz (did you mean --tokens?)");
  CHECK(refusal({"--quiet=1"}) == "--quiet takes no value, but got \"1\"");
  CHECK(refusal({"--quiet="}) == "--quiet takes no value, but got \"\"");
  CHECK(refusal({"--tokens"}) == "--tokens needs a value");
  CHECK(refusal({"--tokens", "--"}) == "--tokens needs a value");
  CHECK(refusal({"--module=x"}) == "--module is not supported: there are none");
  CHECK(refusal({"x"}) == "\"x\" does not belong to a flag");
  CHECK(refusal({"--ranks-per-node=0", "-z", "--quiet=no"}) ==
        "--ranks-per-node \"0\" must be a whole number from 1 to 8\n  --quiet takes no value, but got "
        "\"no\"\n  "
        "unknown flag -z");
  Command command;
  command.takes_files();
  CHECK(command.read({"--tokens=1"}) == "FILE... is missing");
}

TEST_CASE("the environment stands in for what no word gives") {
  const auto read = [](Command& command, const Words& words) {
    command.flags.environment("RONDO_FLAGS_TEST_");
    return command.read(words);
  };
  setenv("RONDO_FLAGS_TEST_RANKS_PER_NODE", "3", 1);
  setenv("RONDO_FLAGS_TEST_QUIET", "yes", 1);
  Command taken, overruled, refused;
  CHECK(read(taken, {"--quiet"}) == "");
  CHECK(taken.ranks == 3);
  CHECK(taken.flags.as_given("--ranks-per-node") == "RONDO_FLAGS_TEST_RANKS_PER_NODE \"3\"");
  CHECK(read(overruled, {"-q", "--ranks-per-node=2"}) == "");
  CHECK(overruled.ranks == 2);
  CHECK(read(refused, {}) == "RONDO_FLAGS_TEST_QUIET \"yes\" must be 0 or 1");
  setenv("RONDO_FLAGS_TEST_QUIET", "1", 1);
  Command switched_on;
  CHECK(read(switched_on, {}) == "");
  CHECK(switched_on.quiet);
}

TEST_CASE("the flags of a command are known to who asks") {
  const Command command;
  for (const char* word : {"--tokens", "--tokens=3", "--ranks_per_node=2", "-t", "--help"})
    CHECK(command.flags.serves(word));
  for (const char* word : {"tokens", "--module", "--training.steps=3", ""})
    CHECK_FALSE(command.flags.serves(word));
}

TEST_CASE("keys of the configuration and words that are no flags are left to their reader, in their order") {
  Words keys;
  int ranks = 0;
  Flags flags("test", "A test.");
  flags.value("--ranks", "N", flag::whole(&ranks, 1, 8), "ranks");
  flags.keys(&keys);
  CHECK(flags.read({"a.toml", "--training.steps", "-1", "--ranks", "4", "--model.dim=", "b.toml"}));
  CHECK(ranks == 4);
  CHECK(keys == Words{"a.toml", "--training.steps", "-1", "--model.dim=", "b.toml"});
  Flags other("test", "A test.");
  other.value("--ranks", "N", flag::whole(&ranks, 1, 8), "ranks");
  other.keys(&keys);
  CHECK_THROWS_AS(other.read({"--rank", "4"}), Error);  // a flag without a dot is the command's own
  keys.clear();
  Flags none("test", "A test.");
  none.keys(&keys);
  CHECK(none.read({"--steps=3"}));  // unless it has none
  CHECK(keys == Words{"--steps=3"});
}

TEST_CASE("a collector gets what --help would print") {
  HelpCollector collector;
  Command command;
  CHECK_FALSE(command.flags.read({"--help"}));
  REQUIRE(collector.commands.size() == 1);
  const CommandSpec& spec = collector.commands[0];
  CHECK(spec.command == "test");
  CHECK(spec.rows.size() == 7);  // --help and all that are served
  CHECK(spec.rows[2].names == Words{"--tokens"});
  CHECK_FALSE(spec.takes_keys);
}

}  // namespace
}  // namespace rondo

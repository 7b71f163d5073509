// The process: exit codes and which stream the text goes to.
#include <sys/wait.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdio>
#include <regex>

#include "config/schema/job_config.h"
#include "tests/config/config_texts.h"

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

// A resolved file says behind each value where it came from.
std::string without_origins(const std::string& text) {
  return std::regex_replace(text, std::regex("  # [^\n]*"), "");
}

const std::string kDebug = RONDO_SOURCE_DIR "/configs/llama3_debug.toml";

}  // namespace

TEST_CASE("rondo config check asks the traced step, as plan does, unless it is told not to") {
  const std::string missing = kDebug +
                              " --compile.memory_policy=full "
                              "--compile.full_recompute_save_ops='[\"layers.*::aten.nothing.default\"]'";
  const Outcome checked = rondo_says("config check " + missing),
                planned = rondo_says("plan --world 2 " + missing);
  CHECK(checked.code == 3);
  CHECK_THAT(checked.text, ContainsSubstring("matches no node of a block in train_step"));
  CHECK(checked.text == planned.text);
  CHECK(rondo_says("config check --no-trace " + missing).code == 0);
  CHECK_THAT(rondo_says("config check --world 4 " + kDebug).text,
             ContainsSubstring("traced as one of 4 ranks in "));
  CHECK(rondo_says("config check --world 3 " + kDebug + " --parallelism.tensor_parallel_degree=2").code == 3);
}

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
  CHECK(rondo_says("config check --help").code == 0);
  CHECK_THAT(rondo_says("config chek x").text, ContainsSubstring("did you mean check?"));
}

TEST_CASE("rondo config resolve prints a file that resolves to itself") {
  const Outcome once = rondo_says("config resolve " + kDebug + " --training.steps 300", false);
  REQUIRE(once.code == 0);
  const rondo::TomlFile file(once.text);
  CHECK_THAT(once.text, ContainsSubstring("\nsteps = 300  # --training.steps 300\n"));
  const Outcome twice = rondo_says("config resolve " + file.path(), false);
  CHECK(twice.code == 0);
  CHECK(without_origins(twice.text) == without_origins(once.text));
}

TEST_CASE("rondo config check refuses what rondo train refuses, in the same words") {
  for (const std::string flags :
       {"--compile.passes=cudagraph --job.device=cpu", "--compile.passes=canonicalise",
        "--compile.fsdp_buckets=layers.9", "--job.device=cuda", "--training.steps=0"}) {
    const Outcome check = rondo_says("config check " + kDebug + " " + flags);
    INFO(check.text);
    CHECK(check.code == (flags == "--job.device=cuda" ? 6 : 3));
    const Outcome train = rondo_says("train " + kDebug + " " + flags);
    CHECK(train.code == check.code);
    CHECK(train.text == check.text);
  }
}

TEST_CASE("rondo train takes its configuration as a word, and names a shipped one where there is none") {
  const Outcome bad = rondo_says("train " + kDebug + " --training.steps=0");
  CHECK(bad.code == 3);
  const Outcome none = rondo_says("train --training.steps=3");
  CHECK(none.code == 2);
  CHECK_THAT(none.text, ContainsSubstring("train: CONFIG is missing: name a TOML file, such as") &&
                            ContainsSubstring("configs/llama3_debug.toml; others are beside it"));
  const Outcome data = rondo_says("train " + kDebug + " --training.dataset=c4 --training.dataset_path=");
  CHECK(data.code == 4);
  CHECK_THAT(data.text, ContainsSubstring("rondo data tokenize"));
}

TEST_CASE("rondo prints version, commit and build type for both the subcommand and the flag") {
  const Outcome version = rondo_says("version", false);
  CHECK(version.code == 0);
  CHECK_THAT(version.text, Catch::Matchers::Matches(
                               R"(rondo \d+\.\d+\.\d+ \((commit [0-9a-f]+(-modified)?|unknown commit); )"
                               R"(\w+, (CPU|CUDA)\)\n)"));
  CHECK(rondo_says("-V", false).text == version.text);
  CHECK(rondo_says("--version", false).text == version.text);
}

TEST_CASE("every command has a help page, and the manual holds every flag and key") {
  const Outcome manual = rondo_says("help --man", false);
  CHECK(manual.code == 0);
  CHECK_THAT(manual.text, ContainsSubstring(".SS \"rondo data tokenize\"") &&
                              ContainsSubstring("\\-\\-shard\\-size") &&
                              ContainsSubstring("training.num_prefetch_batches"));
  for (const rondo::Section& section : rondo::sections())
    for (const rondo::Field& field : *section.fields)
      CHECK_THAT(manual.text, ContainsSubstring(".B " + section.name + "." + field.name));
  for (const char* command : {"",
                              "train",
                              "launch",
                              "plan",
                              "prove",
                              "convert",
                              "logits",
                              "compare",
                              "checkpoint",
                              "checkpoint ls",
                              "config",
                              "config check",
                              "config resolve",
                              "config schema",
                              "data",
                              "data inspect",
                              "help",
                              "doctor",
                              "opt",
                              "completion",
                              "version"}) {
    INFO(command);
    const Outcome help = rondo_says(std::string(command) + " --help", false);
    CHECK(help.code == 0);
    CHECK_THAT(help.text, Catch::Matchers::StartsWith("rondo "));
  }
}

TEST_CASE("bash completes subcommands, flags, keys and their values") {
  const auto completed = [](const std::string& words) {  // the last one is completed
    const std::string script = "source <(" RONDO_BINARY_DIR "/rondo completion bash); COMP_WORDS=(" + words +
                               "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _rondo; echo \"${COMPREPLY[*]}\"";
    FILE* pipe = popen(("bash -c '" + script + "'").c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::array<char, 1 << 16> buffer;
    const std::string text(buffer.data(), fread(buffer.data(), 1, buffer.size(), pipe));
    CHECK(pclose(pipe) == 0);
    return text;
  };
  CHECK(completed("rondo che") == "checkpoint\n");
  CHECK(completed("rondo data i") == "inspect\n");
  CHECK(completed("rondo plan --wor") == "--world\n");
  CHECK(completed("rondo train --lr_scheduler.decay_t") == "--lr_scheduler.decay_type\n");
  CHECK(completed("rondo launch --nnodes 2 -- train --lr_scheduler.decay_t") ==
        "--lr_scheduler.decay_type\n");
  CHECK(completed("rondo train --lr_scheduler.decay_type l") == "linear\n");
  CHECK(completed("rondo train --lr_scheduler.decay_type = c") == "cosine\n");
  CHECK(completed("rondo help training.ste") == "training.steps\n");
  CHECK(completed("rondo help lr_sch").find("lr_scheduler ") == 0);
  CHECK(completed("rondo plan --device h2") == "h20 h200\n");
  CHECK(completed("rondo pipeline ZB") == "ZBVZeroBubble\n");
  CHECK(completed("rondo train --model.name qwen3_") == "qwen3_moe\n");
  CHECK(completed("rondo train --model.flavor deb") == "debugmodel\n");
  CHECK(completed("rondo train " RONDO_SOURCE_DIR "/configs/llama3_8") == RONDO_SOURCE_DIR
        "/configs/llama3_8b.toml\n");
  const Outcome zsh = rondo_says("completion zsh", false);
  CHECK_THAT(zsh.text, Catch::Matchers::StartsWith("autoload") && ContainsSubstring("_rondo()"));
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
  CHECK(rondo_says("help xyzzy").code == 2);
  CHECK_THAT(rondo_says("help lora", false).text, ContainsSubstring("Not in Rondo: Fine-tuning. "));
  CHECK_THAT(rondo_says("help perplexity", false).text, ContainsSubstring("Commands that mention"));
  CHECK(rondo_says("help a b").code == 2);
}

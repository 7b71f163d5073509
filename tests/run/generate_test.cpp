// Tests `rondo generate` and `rondo eval` on the checkpoint of a run and on its export. Each uses
// one thread, since waiting threads of many processes cost more than these models.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "support/printable.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

const Words kTraining = {"--checkpoint.enable=true", "--checkpoint.last_save_in_hf=true",
                         "--training.steps=10", "--validation.steps=5"};

std::string last_validation(const Place& place, const std::string& run) {
  std::string loss;
  for (const std::string& line : lines_of(place / run / "events.jsonl"))
    if (const auto event = nlohmann::json::parse(line); event["event"] == "validation")
      loss = nlohmann::json(event["loss"]).dump();
  return loss;
}

std::string path(const std::filesystem::path& path) { return path.string(); }

// Returns the loss of "loss 5.1  perplexity ...".
double loss_in(const std::string& output) { return std::stod(output.substr(5)); }

void refused(const Words& words, int code, const std::string& why) {
  const ProgramResult run = rondo(words);
  INFO(run.output);
  CHECK(run.exit_code == code);
  CHECK_THAT(run.output, ContainsSubstring(why));
}

TEST_CASE("eval has the loss of the run's validation, and a checkpoint generates the same as its export") {
  setenv("OMP_NUM_THREADS", "1", 1);
  const Place place;
  place.play(1, "run", kTraining);
  const std::string run = path(place / "run"), step = run + "/checkpoint/step-10", exported = step + "-hf";

  const ProgramResult eval = must_end_well({"eval", run});
  CHECK_THAT(eval.output, StartsWith("loss " + last_validation(place, "run") + "  perplexity "));
  CHECK_THAT(eval.output, ContainsSubstring("tokens 80  (5 batches of 1 x 16, float32"));

  const Words corpus = {"--data", path(place / "corpus"), "--seq-len=16", "--batch-size=3"};
  const ProgramResult all = must_end_well(Words{"eval", step} + corpus);
  const ProgramResult of_export = must_end_well(Words{"eval", exported, "--tokenizer=bytes"} + corpus);
  const std::size_t end = all.output.rfind(", ");  // the time is not the same
  CHECK(all.output.substr(0, end) == of_export.output.substr(0, end));
  CHECK(loss_in(all.output) != loss_in(eval.output));
  const ProgramResult bf16 = must_end_well(Words{"eval", step, "--dtype=bfloat16"} + corpus);
  CHECK(loss_in(bf16.output) != loss_in(all.output));
  CHECK(std::abs(loss_in(bf16.output) - loss_in(all.output)) < 0.05);

  const Words prompt = {"--prompt=graph step", "--max-new-tokens=12", "--ids"};
  const ProgramResult greedy = must_end_well(Words{"generate", run} + prompt);
  const ProgramResult same = must_end_well(Words{"generate", exported, "--tokenizer=bytes"} + prompt);
  const auto ids = [](const ProgramResult& result) {
    return result.output.substr(0, result.output.find('\n'));
  };
  CHECK(std::count(greedy.output.begin(), greedy.output.end(), ' ') >= 11);
  CHECK(ids(greedy) == ids(same));
  const auto drawn = [&](const std::string& seed) {
    return ids(must_end_well(
        Words{"generate", step, "--temperature=1", "--top-k=200", "--top-p=0.9", "--seed=" + seed} + prompt));
  };
  const std::string seven = drawn("7");
  CHECK(seven == drawn("7"));
  CHECK(seven != drawn("8"));
  const Words likeliest = {"generate", step, "--temperature=5", "--top-k=1", "--seed=7"};
  CHECK(ids(must_end_well(likeliest + prompt)) == ids(greedy));
  const ProgramResult text = must_end_well({"generate", run, "--prompt=graph step", "--max-new-tokens=3"});
  CHECK_THAT(text.output, StartsWith("graph step"));

  refused({"generate", run, "--prompt=a", "--seed=3"}, 2,
          "--seed \"3\" has no effect without a --temperature");
  refused({"generate", run, "--prompt=a", "--top-k=3"}, 2,
          "--top-k \"3\" has no effect without a --temperature");
  refused({"generate", run, "--prompt=a", "--temperature=1", "--top-k=-1"}, 2,
          "--top-k \"-1\" must be a whole number from 0 on");
  refused({"generate", exported, "--prompt=a"}, 4,
          "has no file of a tokenizer; name the tokenizer with --tokenizer");
  refused({"generate", path(place / "corpus"), "--prompt=a"}, 5, "has no valid checkpoint");
  write_text(place / "unsaved/config.toml", "[checkpoint]\nenable = false\n");
  write_text(place / "unsaved/events.jsonl", "");
  refused({"generate", path(place / "unsaved"), "--prompt=a"}, 5,
          "the run saved nothing, since checkpoint.enable = false; train with --checkpoint.enable=true");
  refused({"eval", exported}, 2, "eval: --data is missing");
  refused({"eval", run, "--seq-len=1000000"}, 2, "--seq-len 1000000 must be at most model.max_seq_len");
}

TEST_CASE("generated text is escaped on a terminal and unchanged in a pipe") {
  setenv("OMP_NUM_THREADS", "1", 1);
  const Place place;
  place.play(1, "run", kTraining);
  const Words words = {"generate", path(place / "run"), "--prompt=\x1b[2J\ré", "--max-new-tokens=1"};
  CHECK_THAT(must_end_well(words).output, StartsWith("\x1b[2J\ré"));

  const std::string script = "/usr/bin/script";  // of bsdutils: runs a command with a terminal for its stdout
  if (!std::filesystem::exists(script)) SKIP("no " + script);
  std::string command = kRondo;
  for (const std::string& word : words) command += " " + shell_word(word);
  const ProgramResult on_terminal = run_program({script, "-qec", command, "/dev/null"}, kRunTimeout_ms);
  INFO(on_terminal.output);
  CHECK(on_terminal.exit_code == 0);
  CHECK_THAT(on_terminal.output, ContainsSubstring("\\x1b[2J\\x0dé"));
  CHECK(on_terminal.output.find("\x1b[2J") == on_terminal.output.npos);
}

TEST_CASE("a run is evaluated from a folder other than the one that its paths are relative to") {
  setenv("OMP_NUM_THREADS", "1", 1);
  const Place place;
  const Words there = {"/usr/bin/env", "-C", path(place / ""), kRondo};
  const ProgramResult trained = run_program(
      there + place.train("run", kTraining + Words{"--training.dataset_path=corpus"}), kRunTimeout_ms);
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  const ProgramResult eval = must_end_well({"eval", path(place / "run")});
  CHECK_THAT(eval.output, StartsWith("loss " + last_validation(place, "run") + "  perplexity "));
}

TEST_CASE("a run on GPUs is evaluated without a GPU") {
  setenv("OMP_NUM_THREADS", "1", 1);
  const Place place;
  place.play(1, "run", kTraining);
  const std::string run = path(place / "run");
  const ProgramResult here = must_end_well({"eval", run});
  std::string config = text_of(place / "run/config.toml");
  const auto set = [&](const std::string& section, const std::string& key, const std::string& value) {
    const std::size_t at = config.find("\n" + key + " = ", config.find("[" + section + "]"));
    REQUIRE(at != config.npos);
    config.replace(at, config.find('\n', at + 1) - at, "\n" + key + " = " + value);
  };
  set("job", "device", "'cuda'");
  set("compile", "passes", "['default', 'cudagraph']");
  set("compile", "numerics", "'rounds'");
  set("compile", "matmul_algorithms", "'of_that_machine.json'");
  write_text(place / "run/config.toml", config);
  const ProgramResult of_gpus = must_end_well({"eval", run});
  CHECK(std::abs(loss_in(of_gpus.output) - loss_in(here.output)) < 1e-5);
}

TEST_CASE("eval on one rank has the loss of a validation on two ranks") {
  setenv("OMP_NUM_THREADS", "1", 1);
  const Place place;
  place.play(2, "run", kTraining);
  const ProgramResult eval = must_end_well({"eval", path(place / "run")});
  INFO(eval.output);
  CHECK(std::abs(loss_in(eval.output) - std::stod(last_validation(place, "run"))) < 1e-6);
  CHECK_THAT(eval.output, ContainsSubstring("tokens 160 "));
}

}  // namespace
}  // namespace rondo

// Run folders that another user has written: files that are no files, bombs, and texts with control
// sequences. Every reader ends soon, and prints nothing that a terminal obeys.
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "runs/follow_run.h"
#include "runs/live_view.h"
#include "runs/metrics/run_folder.h"
#include "runs/report_page.h"
#include "runs/report_text.h"
#include "support/error.h"
#include "support/files/file_lines.h"
#include "support/log.h"
#include "tests/runs/made_up_runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

constexpr const char* kFiles[] = {"metrics.jsonl", "events.jsonl", "exit.json",
                                  "env.json",      "config.toml",  "expert_load.jsonl"};

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// Reads the folder as report and top do. Returns the error, or what is shown.
std::string shown(const fs::path& folder) {
  return error_of([&] {
    std::string text = report_text({read_record(folder)}, 80, false);
    RunFollower follower(folder);
    text += live_view(follower.look(), 80, false);
    if (text.find('\x1b') != text.npos) throw Error(ExitCode::internal, "a control sequence is shown");
  });
}

}  // namespace

TEST_CASE("a pipe, a device or a folder in place of a file of a run is refused by name") {
  for (const char* name : kFiles) {
    const Scratch scratch;
    const fs::path run = scratch / "run", file = run / name;
    const std::string refusal = "4: " + file.string() + ": not a regular file";
    write_run(run, steps(1, 3));
    fs::remove(file);
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    CHECK(shown(run) == refusal);
    fs::remove(file);
    fs::create_symlink("/dev/zero", file);
    CHECK(shown(run) == refusal);
    fs::remove(file);
    fs::create_directory(file);
    CHECK(shown(run) == refusal);
  }
}

TEST_CASE("a file of a run that is too large or has an endless line is refused") {
  for (const char* name : kFiles) {
    const Scratch scratch;
    const fs::path run = scratch / "run", file = run / name;
    write_run(run, steps(1, 3));
    write_text(file, "");
    fs::resize_file(file, std::int64_t{1} << 40);  // sparse
    CHECK_THAT(shown(run), ContainsSubstring(name));
    CHECK_THAT(shown(run), ContainsSubstring("bytes"));
  }
}

TEST_CASE("JSON and TOML of a run that are nested too deeply are refused or left out") {
  const Scratch scratch;
  const fs::path run = scratch / "run";
  write_run(run, steps(1, 3));
  for (const char* name : {"events.jsonl", "exit.json", "env.json", "expert_load.jsonl"})
    write_text(run / name, repeated("{\"a\":", 100'000) + "1" + std::string(100'000, '}') + "\n");
  CHECK(shown(run) == "no error");
  write_text(run / "metrics.jsonl", repeated("{\"a\":", 100'000) + "\n");
  CHECK(shown(run) == "4: " + (run / "metrics.jsonl").string() + ":1: nested deeper than 512");
  write_run(run, steps(1, 3), repeated("a.", 500'000) + "a = 1\n");
  CHECK(shown(run) == "4: " + (run / "config.toml").string() + ":1:1: a key has more than 256 parts");
  write_run(run, steps(1, 3), "[" + repeated("a.", 500'000) + "a]\n");
  CHECK_THAT(shown(run), ContainsSubstring("a key has more than 256 parts"));
  const std::string dots(1000, '.');
  write_run(run, steps(1, 3),
            "# " + dots + "\na = \"\\\"" + dots + "\"\nb = '" + dots + "'\nc = \"\"\"\n" + dots +
                "\n\"\"\"\nd = [" + repeated("1.5, ", 1000) + "]\n\"" + dots + "\" = 1\n");
  CHECK(shown(run) == "no error");
}

TEST_CASE("a run folder that a umask closes to its owner gets a warning, or is refused") {
  const Scratch scratch;
  REQUIRE(keep_log((scratch / "log").string()).empty());
  const mode_t usual = umask(0777);
  std::string error;
  try {
    RunFolder folder(scratch / "run");
    folder.begin({});
  } catch (const Error& refused) {
    error = refused.what();
  }
  umask(usual);
  keep_log("");
  CHECK_THAT(text_of(scratch / "log") + error, ContainsSubstring("/run, whose mode is 000; `chmod u+rwx`") ||
                                                   ContainsSubstring("cannot be written to"));
}

TEST_CASE("control sequences of a run folder do not reach the terminal") {
  const Scratch scratch;
  const fs::path run = scratch / "run\x1b[2J";
  write_run(run, steps(1, 3), "\"a\\u001b[2J\" = \"b\\u001b[2J\"\n");
  write_text(run / "exit.json", R"({"exit_code": 7, "reason": "\u001b]0;pwn\u0007"})");
  write_text(
      run / "events.jsonl",
      R"({"time": "\u001b[2J", "event": "a\u001b[2J", "b\u001b[2J": "\u001b[2J", "c": {"\u001b": [1]}})"
      "\n"
      R"({"event": "model", "name": "\u001b[2J", "layout": "\u009b2J"})"
      "\n");
  CHECK(shown(run) == "no error");
  CHECK_THAT(report_text({read_record(run)}, 80, false), ContainsSubstring(R"(\x1b]0;pwn\x07)"));
  CHECK(read_run(run).config.begin()->first == R"(a\x1b[2J)");
  std::vector<StepMetrics> lines = steps(1, 1);
  lines[0].state_hash = "\\u001b[2J" + std::string(100, 'a');
  write_run(run, lines);
  CHECK(read_run(run).steps.last().state_hash->starts_with(R"(\x1b[2Ja)"));
}

TEST_CASE("an error quotes little of a damaged line") {
  const Scratch scratch;
  write_run(scratch / "run", {});
  write_text(scratch / "run/metrics.jsonl", "{\"step\": 1" + std::string(1'000'000, '1') + "}\n");
  CHECK(shown(scratch / "run").size() < 1000);
}

TEST_CASE("lines of a file are read across blocks, from any offset, with or without a last newline") {
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 500; ++i) text += std::string(static_cast<std::size_t>(i * 37 % 1000), 'x') + "\n";
  text += std::string(200'000, 'y') + "\n\nend";
  write_text(scratch / "f", text);
  for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, text.size() - 4, text.size()}) {
    FileLines lines(scratch / "f", FileUse::data, static_cast<std::int64_t>(offset));
    std::string read;
    while (const auto line = lines.next()) read += std::string(*line) + (lines.is_complete() ? "\n" : "");
    CHECK(read == text.substr(offset));
    CHECK_FALSE(lines.next());
  }
}

}  // namespace rondo

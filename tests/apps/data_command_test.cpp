// `rondo data` as a user types it.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>

#include "apps/rondo/run_program.h"
#include "tests/datasets/control_tokenizer.h"
#include "tests/datasets/token_bytes.h"
#include "tests/runs/metrics/scratch.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

using Words = std::vector<std::string>;

ProgramResult data(const Words& words) {
  Words line = {RONDO_BINARY_DIR "/rondo", "data"};
  line.insert(line.end(), words.begin(), words.end());
  return run_program(line, 120'000);
}

Words tokenize_words(const Scratch& place, const std::string& output) {
  return {"tokenize",
          "--tokenizer",
          "bytes",
          "--input",
          (place / "in").string(),
          "--output",
          (place / output).string(),
          "--part-size",
          "2K",
          "--threads",
          "2"};
}

void write_text_files(const Scratch& place, int count) {
  std::mt19937 random(3);
  for (int i = 0; i < count; ++i)
    write_text(place / "in" / (std::to_string(i) + ".txt"),
               std::string(1 + random() % 3000, static_cast<char>('a' + i % 26)));
}

// Runs the command and kills it after `us` microseconds; whether it had ended by itself.
bool run_and_kill(const Words& words, unsigned us) {
  const pid_t child = fork();
  if (child == 0) {
    Words line = {RONDO_BINARY_DIR "/rondo", "data"};
    line.insert(line.end(), words.begin(), words.end());
    std::vector<char*> argv;
    for (std::string& word : line) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  usleep(us);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status);
}

}  // namespace

TEST_CASE("rondo data shows help, and names what it does not know") {
  CHECK(data({"--help"}).exit_code == 0);
  CHECK_THAT(data({"tokenise"}).output, ContainsSubstring("did you mean tokenize?"));
  CHECK(data({}).exit_code == 2);
  for (const char* command : {"tokenize", "inspect"}) {
    const ProgramResult help = data({command, "--help"});
    CHECK(help.exit_code == 0);
    CHECK_THAT(help.output, ContainsSubstring("Exit code: 0"));
  }
  const ProgramResult unknown = data({"tokenize", "--ouput", "x"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.output ==
        "rondo: error: data tokenize: unknown flag --ouput (did you mean --output?); `rondo data tokenize "
        "--help` lists "
        "the flags\n");
  CHECK_THAT(data({"inspect", "--verfy", "x"}).output, ContainsSubstring("did you mean --verify?"));
  CHECK_THAT(data({"tokenize", "--tokenizer", "bytes"}).output, ContainsSubstring("--input is missing"));
  CHECK_THAT(data({"tokenize", "--threads", "0"}).output,
             ContainsSubstring("--threads \"0\" must be a whole number"));
  CHECK_THAT(data({"tokenize", "x"}).output, ContainsSubstring("\"x\" does not belong to a flag;"));
  CHECK_THAT(data({"tokenize", "--input", "/", "/"}).output,
             ContainsSubstring("\"/\" does not belong to a flag; put a pattern of files in quotes;"));
  CHECK_THAT(data({"tokenize", "--output"}).output, ContainsSubstring("--output needs a value"));
  CHECK(data({"inspect"}).exit_code == 2);
  CHECK(data({"inspect", "/no/such/file"}).exit_code == 4);
}

TEST_CASE("inspect shows names and texts of others without their control characters") {
  const Scratch place;
  write_text(place / "in" / "\x1b[2Ja.txt", "\x1b[31mred\x7f");
  const ProgramResult shown = data({"inspect", (place / "in").string()});
  INFO(shown.output);
  CHECK(shown.exit_code == 0);
  CHECK_THAT(shown.output, ContainsSubstring("\\x1b[2Ja.txt") && ContainsSubstring("[31mred"));
  CHECK(shown.output.find_first_of("\x1b\x7f") == std::string::npos);
}

TEST_CASE("inspect ends with the files of each format and the documents of all") {
  const Scratch place;
  write_text(place / "a.txt", "text");
  write_text(place / "b.txt", "text");
  write_text(place / "c.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  const std::string a = place.path("a.txt"), b = place.path("b.txt"), lines = place.path("c.jsonl");
  CHECK_THAT(data({"inspect", a, b, lines}).output,
             ContainsSubstring("\ntotal: files: 1 of JSONL, 2 of text; documents: 4\n"));
  CHECK_THAT(data({"inspect", lines}).output, !ContainsSubstring("total"));
}

TEST_CASE("tokenize warns of a file that is listed twice") {
  const Scratch place;
  write_text(place / "in/a.txt", "hello");
  const ProgramResult made =
      data({"tokenize", "--tokenizer", "bytes", "--input", (place / "in").string(), "--input",
            (place / "in/a.txt").string(), "--output", (place / "out.tokens").string()});
  INFO(made.output);
  CHECK(made.exit_code == 0);
  CHECK_THAT(made.output, ContainsSubstring("are one file: its documents count twice"));
}

TEST_CASE("tokenize makes a file that inspect explains and verifies") {
  const Scratch place;
  write_text(place / "in/a.txt", "hello");
  write_text(place / "in/b.txt", "world!");
  const ProgramResult made = data(tokenize_words(place, "out.tokens"));
  INFO(made.output);
  REQUIRE(made.exit_code == 0);
  CHECK_THAT(made.output, ContainsSubstring("15 tokens in 2 documents from 11 B of text"));
  const ProgramResult seen =
      data({"inspect", (place / "out.tokens").string(), "--verify", "--documents", "1"});
  CHECK(seen.exit_code == 0);
  CHECK(seen.output == (place / "out.tokens").string() +
                           "\n"
                           "  format      Rondo tokens, version 1\n"
                           "  tokenizer   byte\n"
                           "  fingerprint 0000000000000000\n"
                           "  ends        <bos> text <eos> (256, 257)\n"
                           "  token       u16 (2 bytes)\n"
                           "  documents   2\n"
                           "  tokens      15\n"
                           "  ids         33 to 257\n"
                           "  document 0  7 tokens: 256 104 101 108 108 111 257\n"
                           "              \"hello\"\n"
                           "  verified    whole\n");
  std::string damaged = text_of(place / "out.tokens");
  damaged[260] = static_cast<char>(damaged[260] ^ 1);
  write_text(place / "out.tokens", damaged);
  CHECK(data({"inspect", (place / "out.tokens").string()}).exit_code == 0);
  const ProgramResult bad = data({"inspect", (place / "out.tokens").string(), "--verify"});
  CHECK(bad.exit_code == 4);
  CHECK_THAT(bad.output, ContainsSubstring("the tokens are damaged: their checksum differs"));
}

TEST_CASE(
    "tokenize and inspect say in one line what is between documents, and how often text spells a token") {
  const Scratch place;
  write_text(place / "in.jsonl", "{\"text\": \"hello<|end|>\"}\n");
  write_text(place / "t/tokenizer.json", kControlTokenizer);
  write_text(place / "t/tokenizer_config.json", kBosIsEos);
  const std::string in = (place / "in.jsonl").string(), out = (place / "out.tokens").string(),
                    tokenizer = (place / "t").string();
  const std::string line = "text <|end|>; text that spells a control token stays text (1 such)\n";
  CHECK_THAT(data({"inspect", in, "--tokenizer", tokenizer}).output,
             ContainsSubstring("  ends        " + line));
  CHECK_THAT(data({"tokenize", "--tokenizer", tokenizer, "--input", in, "--output", out}).output,
             ContainsSubstring("\ndocuments: " + line));
  const auto first_document = [&](const std::string& file) {
    const std::string text = data({"inspect", file, "--tokenizer", tokenizer}).output;
    const std::size_t at = text.find("  document 0  ");
    return at == text.npos ? "none in " + text : text.substr(at, text.find('\n', at) - at);
  };
  CHECK_THAT(first_document(out), ContainsSubstring(" tokens: "));
  CHECK(first_document(in) == first_document(out));
  CHECK_THAT(
      data({"inspect", out}).output,
      ContainsSubstring("  ends        text 11 (none, 11); text that spells a control token stays text (1 "
                        "such)\n"));
  const std::string other = (place / "other.tokens").string();
  CHECK_THAT(
      data({"tokenize", "--tokenizer", tokenizer, "--input", in, "--output", other, "--special-tokens",
            "token", "--document-begin", "<|end|>", "--document-end", "none"})
          .output,
      ContainsSubstring("\ndocuments: <|end|> text; text that spells a control token becomes it (1 such)\n"));
  CHECK_THAT(data({"inspect", other}).output, ContainsSubstring("document 0  6 tokens: 11 10 2 2 3 11\n"));
  const ProgramResult refused = data({"inspect", in, "--document-end", "<eox>"});
  CHECK(refused.exit_code == 4);
  CHECK_THAT(refused.output, ContainsSubstring("did you mean <eos>?"));
}

TEST_CASE("tokenize and inspect read the documents of one text file between separators") {
  const Scratch place;
  write_text(place / "s.txt", "one\n<|endoftext|>\ntwo\n<|endoftext|>\n");
  const std::string in = (place / "s.txt").string(), out = (place / "out.tokens").string();
  const ProgramResult text = data({"inspect", in, "--document-separator", "<|endoftext|>"});
  CHECK_THAT(text.output, ContainsSubstring("  documents   2\n  bytes       6\n"));
  CHECK_THAT(data({"tokenize", "--tokenizer", "bytes", "--input", in, "--output", out, "--document-separator",
                   "<|endoftext|>"})
                 .output,
             ContainsSubstring("10 tokens in 2 documents from 6 B of text"));
}

TEST_CASE("inspect knows every format") {
  const Scratch place;
  const Documents documents = {{1, 2, 3}, {4, 500}};
  const TokenIds ids = flat(documents);
  write_text(place / "m.bin", bytes_of_ids<int32_t>(ids));
  write_text(place / "m.idx", megatron_index(documents, 4, 4));
  write_text(place / "d.ds", bytes_of_ids<uint16_t>(ids));
  write_text(place / "d.ds.index", ends_of(documents));
  write_text(place / "l.bin", llmc_bytes(ids));
  write_text(place / "t.txt", "text");
  write_text(place / "p.packed", "rondo corpus 1\n3 a.h\n\nabc");
  write_text(place / "j.jsonl", "{\"text\": \"x\"}\n");
  const std::string out = data({"inspect", (place / "m.bin").string(), (place / "d.ds").string(),
                                (place / "l.bin").string(), (place / "t.txt").string(),
                                (place / "p.packed").string(), (place / "j.jsonl").string(), "--verify"})
                              .output;
  INFO(out);
  for (const char* text :
       {"format      Megatron-LM", "token       i32 (4 bytes)", "format      datatrove",
        "format      llm.c, GPT-2", "ids         1 to 500", "document 1  2 tokens: 4 500", "format      text",
        "format      packed corpus", "format      JSONL", "document 0  3 tokens: 256 120 257"})
    CHECK_THAT(out, ContainsSubstring(text));
}

TEST_CASE("inspect and tokenize see the same documents of a folder, and say what they leave out") {
  const Scratch place;
  write_text(place / "in/data.json",
             "{\"text\": \"hello\"}\n{\"text\": null}\n{\"text\": \"again\", \"x\": NaN}\n");
  write_text(place / "in/README.md", "read me");
  write_text(place / "in/data.json.incomplete", "{\"text\": \"");
  const std::string in = (place / "in").string(), out = (place / "out.tokens").string();
  const Words tokenize = {"tokenize", "--tokenizer", "bytes", "--input", in, "--output", out};
  for (const Words& words : {Words{"inspect", in}, tokenize}) {
    const ProgramResult stopped = data(words);
    CHECK(stopped.exit_code == 4);
    CHECK_THAT(stopped.output, ContainsSubstring("data.json:2:10: the field \"text\" is not a string"));
  }
  const Words skip = {"tokenize", "--tokenizer", "bytes",           "--input", in,
                      "--output", out,           "--on-bad-record", "skip"};
  const ProgramResult text = data({"inspect", in, "--on-bad-record=skip"}), made = data(skip);
  for (const ProgramResult& result : {text, made}) {
    INFO(result.output);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.output, ContainsSubstring("files read: 1; left out: 1 text (README.md), 1 unfinished "
                                                "(data.json.incomplete)"));
    CHECK_THAT(
        result.output,
        ContainsSubstring("bad records skipped: 1, the field \"text\" is not a string; the first is "));
  }
  CHECK_THAT(made.output,
             ContainsSubstring("14 tokens in 2 documents") && ContainsSubstring("1 bad records"));
  for (const ProgramResult& result : {text, data({"inspect", out})})
    CHECK_THAT(result.output, ContainsSubstring("document 0  7 tokens: 256 104 101 108 108 111 257") &&
                                  ContainsSubstring("document 1  7 tokens: 256 97 103 97 105 110 257"));
  write_text(place / "array.json", "[{\"text\": \"a\"}]");
  CHECK(data({"inspect", (place / "array.json").string()}).exit_code == 4);
}

TEST_CASE("tokenize killed at any moment and started again gives the same bytes") {
  const Scratch place;
  write_text_files(place, 300);
  REQUIRE(data(tokenize_words(place, "whole.tokens")).exit_code == 0);
  const std::string whole = text_of(place / "whole.tokens");
  std::mt19937 random(11);
  int killed = 0;
  for (int round = 0; round < 12; ++round) {
    const std::string name = "out" + std::to_string(round) + ".tokens";
    bool ended = false;
    for (int kills = 0; kills < 3 && !ended; ++kills) {
      ended = run_and_kill(tokenize_words(place, name), random() % 40'000);
      killed += !ended;
      // A file of the final name is whole, always.
      if (std::filesystem::exists(place / name)) REQUIRE(text_of(place / name) == whole);
    }
    if (!std::filesystem::exists(place / name) || std::filesystem::exists(place / ("." + name + ".parts"))) {
      const ProgramResult again = data(tokenize_words(place, name));
      INFO(again.output);
      REQUIRE(again.exit_code == 0);
    }
    REQUIRE(text_of(place / name) == whole);
    CHECK_FALSE(std::filesystem::exists(place / ("." + name + ".parts")));
    CHECK_FALSE(std::filesystem::exists(place / ("." + name + ".part")));
  }
  CHECK(killed > 0);
}

TEST_CASE("a full disk ends tokenize with 9, and the same command goes on when there is room") {
  const Scratch place;
  write_text_files(place, 200);
  std::filesystem::create_directories(place / "disk");
  const std::string outcome = in_child([&]() -> std::string {
    const bool mounted = (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
                         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         mount("tmpfs", (place / "disk").c_str(), "tmpfs", 0, "size=700k") == 0;
    if (!mounted) return "skip";
    const ProgramResult full = data(tokenize_words(place, "disk/out.tokens"));
    std::string text = fmt::format("{} {}", full.exit_code, full.output);
    if (std::filesystem::exists(place / "disk/out.tokens")) text += "an output is there";
    if (mount("none", (place / "disk").c_str(), "tmpfs", MS_REMOUNT, "size=64m") != 0) return "skip";
    const ProgramResult again = data(tokenize_words(place, "disk/out.tokens"));
    return text + fmt::format("again {} {}", again.exit_code, again.output);
  });
  if (outcome == "skip") SKIP("private mounts are not permitted here");
  INFO(outcome);
  CHECK(outcome.substr(0, 2) == "9 ");
  CHECK_THAT(outcome,
             ContainsSubstring("No space left on device; free space, then give the same command again"));
  CHECK_THAT(outcome, !ContainsSubstring("an output is there"));
  CHECK_THAT(outcome, ContainsSubstring("again 0 ") && ContainsSubstring("parts of an earlier run kept"));
}

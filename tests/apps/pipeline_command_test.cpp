// `rondo pipeline`: what it prints, what it writes, and how it refuses.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "apps/rondo/run_program.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Words = std::vector<std::string>;

ProgramResult pipeline(Words words) {
  words.insert(words.begin(), {RONDO_BINARY_DIR "/rondo", "pipeline"});
  return run_program(words, 60'000);
}

TEST_CASE("a schedule that is written is read back with the same numbers, with messages and without") {
  const Scratch scratch;
  const std::string csv = scratch / "s.csv";
  const Words shape = {"ZBVZeroBubble", "--ranks", "3", "--microbatches", "5", "--write-csv", csv};
  for (const bool messages : {false, true}) {
    Words words = shape;
    if (messages) words.emplace_back("--messages");
    const ProgramResult made = pipeline(words), read = pipeline({"--csv", csv});
    CHECK(made.exit_code == 0);
    CHECK(read.exit_code == 0);
    const auto numbers = [](const ProgramResult& result) {
      return result.output.substr(result.output.find(": "));
    };
    CHECK(numbers(read) == numbers(made));
    CHECK((text_of(csv).find("SEND_F") != std::string::npos) == messages);
  }
}

TEST_CASE("it prints the proof, the grid, and what ranks and edges have") {
  CHECK(pipeline({"1F1B", "--ranks", "2", "--microbatches", "2", "--send", "0.5"}).output ==
        "1F1B: 2 ranks, 1 stage a rank, 2 microbatches\nproven: 18 actions, 4 messages; no deadlock, no lost "
        "message, and weight gradients are summed in order\ntime of a step 10, bubbles 40.0 % of it; 25.0 % "
        "without warm-up and drain\n\nrank   0  F0 F1 .........B0    ...B1\nrank   1  ......F0 B0    F1 "
        "B1\n\nrank      busy   bubbles  microbatches in flight   pending\n   0         6    40.0 %          "
        "             2         0\n   1         6    40.0 %                       1         0\n\nedge      "
        "messages\n  0 -> 1          2\n  1 -> 0          2\n");
}

TEST_CASE("fewer pending microbatches make longer bubbles, of a schedule by name and of a file") {
  const Scratch scratch;
  const std::string csv = scratch / "s.csv";
  const Words shape = {
      "InterleavedZeroBubble", "--stages-per-rank", "1", "--ranks", "4", "--microbatches", "8"};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return pipeline(words).output;
  };
  CHECK_THAT(with(shape, {"--write-csv", csv}), ContainsSubstring("bubbles 11.1 % of it"));
  for (const Words& schedule : {shape, Words{"--csv", csv}}) {
    CHECK_THAT(with(schedule, {"--max-pending", "1"}), ContainsSubstring("bubbles 20.0 % of it"));
    CHECK_THAT(with(schedule, {"--max-pending", "0"}), ContainsSubstring("bubbles 27.3 % of it"));
  }
}

TEST_CASE("layers are divided, and the number of stages a rank with the shortest step is taken") {
  const Words job = {"Interleaved1F1B", "--ranks", "4", "--microbatches", "8", "--layers", "30"};
  const std::string free = pipeline(job).output;
  CHECK_THAT(free, ContainsSubstring("Interleaved1F1B: 4 ranks, 8 stages a rank, 8 microbatches\n"));
  CHECK_THAT(free, ContainsSubstring("layers E|(t|)*30L\n"));
  // Slow messages are worth longer stages.
  Words slow = job;
  slow.insert(slow.end(), {"--send", "3"});
  CHECK_THAT(pipeline(slow).output, ContainsSubstring("Interleaved1F1B: 4 ranks, 2 stages a rank"));
  CHECK_THAT(
      pipeline({"1F1B", "--ranks", "4", "--microbatches", "8", "--layout", "Et*7|(t*8|)*2t*7L"}).output,
      ContainsSubstring("layers Et*7|(t*8|)*2t*7L\n"));
}

TEST_CASE("what cannot be is refused with flag and rule, and a wrong schedule with its place") {
  const Scratch scratch;
  const auto refused = [](const Words& words, int code, const std::string& text) {
    const ProgramResult result = pipeline(words);
    CHECK(result.exit_code == code);
    CHECK_THAT(result.output, ContainsSubstring(text));
  };
  const Words shape = {"1F1B", "--ranks", "4", "--microbatches", "8"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), shape.begin(), shape.end());
    return more;
  };
  refused({}, 2, "pipeline: give either SCHEDULE or --csv");
  refused({"1F1B"}, 2, "pipeline: --ranks is missing");
  refused({"1F1X", "--ranks", "1", "--microbatches", "1"}, 2,
          "unknown schedule \"1F1X\" (did you mean 1F1B?)");
  refused(with({"--messages"}), 2, "--messages needs --write-csv");
  refused(with({"--write", "s.pdf"}), 2, "--write \"s.pdf\" must end in .svg or .html");
  refused(with({"--durations", "1,2"}), 2, "must be three times above 0 for F, I and W, such as 1,1.2,0.8");
  refused(with({"--layers", "8", "--layout", "EtL"}), 2, "--layers and --layout exclude each other");
  refused(with({"--layout", "Et|tL"}), 2,
          "--layout has 2 stages; their number must be a multiple of --ranks 4");
  refused(with({"--layers", "1"}), 2, "--layers \"1\" must be at least 2");
  refused(with({"--max-pending", "2"}), 3, "no backward of the schedule is divided into I and W");
  refused(with({"--slots", "2"}), 3, "rank 0, action 2 (0F2) uses slot 0 of stage 0");
  refused({"1F1B", "--ranks", "8192", "--microbatches", "9000"}, 2,
          "--microbatches \"9000\" must be at most 2730 with 8192 stages");
  refused({"--csv", scratch / "none.csv"}, 4, "check that the path exists");
  refused(with({"--write-csv", scratch / "none/s.csv"}), 6, "choose another output");
  write_text(scratch / "wrong.csv", "0F0,0B0\n1F0\n");
  refused({"--csv", scratch / "wrong.csv"}, 3, "rank 1, stage 1: 1I0 is missing");
}

}  // namespace
}  // namespace rondo

// docs/pipeline.md, asked of the program: its pictures, its tables, its CSV. A failure shows the
// line to put in; a picture is written again by the command that is shown.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "apps/rondo/run_program.h"
#include "parallel/pipeline/csv.h"
#include "parallel/pipeline/lower.h"
#include "parallel/pipeline/picture.h"
#include "parallel/pipeline/schedules.h"
#include "tests/docs/page.h"

namespace rondo::pipeline {
namespace {

namespace fs = std::filesystem;
const fs::path kDocs = RONDO_SOURCE_DIR "/docs";

TEST_CASE("the pictures of docs/pipeline.md are what the program draws") {
  const Scratch scratch;
  for (const Schedule& schedule : schedules()) {
    std::string file = "pipeline_" + schedule.name + ".svg";
    std::transform(file.begin(), file.end(), file.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::vector<std::string> words = {"pipeline",       schedule.name, "--ranks", "4",
                                            "--microbatches", "8",           "--write"};
    std::vector<std::string> argv = {RONDO_BINARY_DIR "/rondo"};
    argv.insert(argv.end(), words.begin(), words.end());
    argv.push_back((scratch / file).string());
    const ProgramResult result = run_program(argv, 60'000);
    INFO(result.output);
    REQUIRE(result.exit_code == 0);
    INFO(fmt::format("rondo pipeline {} --ranks 4 --microbatches 8 --write docs/pictures/{}", schedule.name,
                     file));
    CHECK(text_of(scratch / file) == text_of(kDocs / "pictures" / file));
    CHECK(text_of(kDocs / "pipeline.md").find("(pictures/" + file + ")") != std::string::npos);
  }
}

TEST_CASE("docs/pipeline.md has the bubbles, the memory and the messages of each schedule") {
  const std::string page = text_of(kDocs / "pipeline.md");
  const auto row = [](const Schedule& schedule, std::int32_t stages) {
    std::string text = stages == 1 ? fmt::format("| {} |", schedule.name)
                                   : fmt::format("| {}, {} stages |", schedule.name, stages);
    std::string tail;
    for (const auto& [ranks, microbatches] : {std::pair(4, 8), {4, 16}, {8, 16}, {8, 32}, {16, 64}}) {
      const Program lowered = lower(make_program(schedule, {ranks, stages, microbatches}));
      const Proof proof = prove(lowered);
      text += fmt::format(" {:.1f} % |", 100 * simulate(lowered, {}, false).bubble_share());
      if (ranks != 8 || microbatches != 16) continue;
      double in_flight = 0;
      for (std::size_t rank = 0; rank < lowered.ranks.size(); ++rank)
        in_flight = std::max(in_flight, microbatches_in_flight(lowered, proof, rank));
      std::int64_t messages = 0;
      for (const Edge& edge : proof.edges) messages = std::max(messages, edge.messages);
      tail = fmt::format(" {:.4g} | {} |", in_flight, messages);
    }
    return text + tail;
  };
  for (const auto& [name, stages] : std::vector<std::pair<const char*, int>>{{"GPipe", 1},
                                                                             {"1F1B", 1},
                                                                             {"Interleaved1F1B", 2},
                                                                             {"Interleaved1F1B", 4},
                                                                             {"InterleavedZeroBubble", 1},
                                                                             {"InterleavedZeroBubble", 2},
                                                                             {"ZBVZeroBubble", 2},
                                                                             {"DualPipeV", 2}}) {
    const std::string line = row(schedule_named(name), stages);
    INFO("docs/pipeline.md should have this line:\n" << line);
    CHECK(page.find(line + "\n") != std::string::npos);
  }
}

TEST_CASE("docs/pipeline.md has the bubbles and the memory of schedules with fewer pending microbatches") {
  const std::string page = text_of(kDocs / "pipeline.md");
  for (const auto& [name, stages] : std::vector<std::pair<const char*, int>>{{"InterleavedZeroBubble", 1},
                                                                             {"InterleavedZeroBubble", 2},
                                                                             {"ZBVZeroBubble", 2},
                                                                             {"DualPipeV", 2}}) {
    const Program whole = make_program(schedule_named(name), {8, stages, 16});
    std::string line = fmt::format("| {}{} |", name, stages == 1 ? "" : ", 2 stages");
    for (const std::int32_t most : {kMaxMicrobatches, 4, 2, 1, 0}) {
      const auto [lowered, proof] = lower_and_prove(limit_pending(whole, most));
      double in_flight = 0, pending = 0;
      for (std::size_t rank = 0; rank < lowered.ranks.size(); ++rank) {
        in_flight = std::max(in_flight, microbatches_in_flight(lowered, proof, rank));
        pending = std::max(pending, microbatches_pending(lowered, proof, rank));
      }
      line += fmt::format(" {:.1f} %, {:.4g}, {:.4g} |", 100 * simulate(lowered, {}, false).bubble_share(),
                          in_flight, pending);
    }
    INFO("docs/pipeline.md should have this line:\n" << line);
    CHECK(page.find(line + "\n") != std::string::npos);
  }
}

TEST_CASE("docs/pipeline.md shows the CSV of 1F1B and the circle of a schedule") {
  std::string block;
  for (const std::string& line : block_below("docs/pipeline.md", "## Programs")) block += line + "\n";
  CHECK(block == to_csv(make_program(schedule_named("1F1B"), {4, 1, 4})));
  const std::string error = error_of([] {
    prove(
        read_csv("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
                 "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n",
                 "s.csv"));
  });
  const std::vector<std::string> shown = block_below("docs/pipeline.md", "## What is proven");
  REQUIRE(shown.size() == 3);
  for (const std::string& line : shown)
    CHECK(error.find(line.substr(line.starts_with("rondo") ? 14 : 0)) != std::string::npos);
}

}  // namespace
}  // namespace rondo::pipeline

// Tests mistakes in real steps of both models, on real ranks. Types of sharding, owners of
// parameters and the proof of a pipeline's program refuse most; the others must change numbers when
// steps are run. RONDO_BLESS=1 rewrites docs/mistakes.md.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>

#include "tests/runs/metrics/scratch.h"
#include "tests/trainer/mutants/mistakes.h"
#include "tests/trainer/mutants/played.h"

namespace rondo {
namespace {

// Checks that every mistake has a place in its graph, and that the result is a graph.
void check_all_are_graphs(const std::vector<Verdict>& verdicts) {
  for (const Verdict& verdict : verdicts) {
    INFO(verdict.job << ", " << verdict.name << ": " << verdict.found);
    CHECK_FALSE(verdict.found.starts_with("is no graph"));
  }
}

}  // namespace

TEST_CASE(
    "99 in 100 mistakes written by hand are found, of those within a stage 80 by the types of a graph alone; "
    "docs/mistakes.md") {
  const Verdicts all = played(/*sample=*/5, /*seed=*/1);
  const std::vector<Verdict>& verdicts = all.at("hand");
  check_all_are_graphs(verdicts);
  REQUIRE(verdicts.size() == mistakes().size());
  REQUIRE(verdicts.size() >= 60);
  std::size_t refused = 0, caught = 0, typed = 0, in_pipelines = 0;
  std::string rows, escaped;
  for (const Verdict& verdict : verdicts) {
    refused += verdict.refused();
    caught += verdict.caught();
    in_pipelines += verdict.job == "pipeline";
    typed += verdict.refused() && verdict.job != "pipeline";
    if (!verdict.caught()) escaped += verdict.job + ": " + verdict.name + "\n";
    const char* by = verdict.found == "refused: parameters_keep_their_places" ? "owners"
                     : verdict.found == "refused: proof of the program"       ? "proof"
                     : verdict.refused()                                      ? "types"
                     : verdict.caught()                                       ? "play"
                                                                              : "nothing";
    rows += fmt::format("| {} | {} | {} |\n", verdict.name, verdict.job, by);
  }
  INFO(escaped);
  CHECK(caught * 100 >= verdicts.size() * 99);
  CHECK(typed * 100 >= (verdicts.size() - in_pipelines) * 80);
  CHECK(in_pipelines >= 10);
  std::string layouts;
  for (const MutantJob& job : mutant_jobs())
    layouts += fmt::format("| {} | `configs/{}.toml` | `{}` |\n", job.name, job.model, job.layout);
  const std::string page = fmt::format(
      "# Mistakes and what finds them\n\n"
      "{0} mistakes in how ranks share a step, each put into the graph of a small model, or into its "
      "schedule. Of these\n{1} are refused before a step runs, by the types of sharding, the owners of "
      "parameters or the proof of a pipeline's\nprogram, and {2} more are found when three steps of them are "
      "played in float64 beside the step as it is ([proof.md](proof.md)).\n"
      "`tests/trainer/mutants/` writes this page.\n\n"
      "| layout | model | as for `rondo prove` |\n|---|---|---|\n{3}\n"
      "| mistake | layout | found by |\n|---|---|---|\n{4}",
      verdicts.size(), refused, caught - refused, layouts, rows);
  const std::filesystem::path file = RONDO_SOURCE_DIR "/docs/mistakes.md";
  if (std::getenv("RONDO_BLESS") != nullptr) write_text(file, page);
  CHECK(text_of(file) == page);

  // A sample of generated mistakes.
  for (const Verdict& verdict : all.at("machine")) {
    INFO(verdict.job << ", " << verdict.name << ": " << verdict.found);
    CHECK(verdict.caught());
  }
}

}  // namespace rondo

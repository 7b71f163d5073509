// Tests which files are in a run folder when a run resumes there.
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "runs/metrics/run_folder.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

// Begins with `resumed`, as Report does, and writes `mark` to the metrics. Returns the identity of
// the run.
std::string play(const fs::path& folder, const std::optional<Resumed>& resumed, const std::string& mark) {
  RunFolder run(folder);
  run.begin(resumed);
  run.event("start", nlohmann::ordered_json{{"begun", run.begun()}});
  AppendFile(run.metrics_file()).append(mark + "\n");
  return run.begun();
}

}  // namespace

TEST_CASE(
    "a resumed run finds its files after another run has begun in the folder, and the other run keeps its "
    "own") {
  const Scratch scratch;
  const fs::path folder = scratch / "run";
  const std::string first = play(folder, {}, "first"), other = play(folder, {}, "other");
  CHECK(first != other);
  CHECK(text_of(folder / "previous-1/metrics.jsonl") == "first\n");

  {
    RunFolder run(folder);
    run.begin(Resumed{6, first});
    CHECK(run.begun() == first);
    CHECK(run.brought_back() == folder / "previous-1");
    CHECK(run.previous() == folder / "previous-2");
    CHECK(text_of(folder / "metrics.jsonl") == "first\n");
    CHECK(text_of(folder / "previous-2/metrics.jsonl") == "other\n");
    CHECK_FALSE(fs::exists(folder / "previous-1"));
  }
  CHECK(play(folder, Resumed{6, other}, "again") == other);
  CHECK(text_of(folder / "metrics.jsonl") == "other\nagain\n");
  CHECK(text_of(folder / "previous-1/metrics.jsonl") == "first\n");
}

TEST_CASE("a run that resumes in its folder continues its files and keeps its identity") {
  const Scratch scratch;
  const fs::path folder = scratch / "run";
  const std::string first = play(folder, {}, "one");
  CHECK(play(folder, Resumed{1, first}, "two") == first);
  CHECK(play(folder, Resumed{1, ""}, "three") == first);  // a checkpoint without the identity of its run
  CHECK(text_of(folder / "metrics.jsonl") == "one\ntwo\nthree\n");
  CHECK_FALSE(fs::exists(folder / "previous-1"));
}

TEST_CASE("a run whose files are missing begins new ones, and uses no files of other runs") {
  const Scratch scratch;
  const fs::path folder = scratch / "run";
  play(folder, {}, "other");
  CHECK(play(folder, Resumed{6, "a run that is gone"}, "own") == "a run that is gone");
  CHECK(text_of(folder / "metrics.jsonl") == "own\n");
  CHECK(text_of(folder / "previous-1/metrics.jsonl") == "other\n");
}

}  // namespace rondo

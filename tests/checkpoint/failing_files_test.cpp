// Tests saves and prunes whose file system calls fail one by one, or that are killed at each
// of them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "apps/rondo/run_program.h"
#include "checkpoint/catalog.h"
#include "checkpoint/prune.h"
#include "tests/checkpoint/states.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::checkpoint {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

constexpr int kTimeout_ms = 120'000;
constexpr int kKilled = 128 + 9;

// A root with step 1, for one run of save_twice.
class Place {
 public:
  Place() { save(root(), 1); }
  fs::path root() const { return scratch_ / "root"; }
  fs::path log() const { return scratch_ / "calls.txt"; }

  ProgramResult save_twice(const std::string& action, long at, long times = 1, const std::string& under = "",
                           const std::string& calls = "") const {
    return run_program(
        {"/usr/bin/env", "LD_PRELOAD=" RONDO_BINARY_DIR "/tests/libfailing_files.so",
         "ASAN_OPTIONS=verify_asan_link_order=0",
         "FAILING_FILES_UNDER=" + (under.empty() ? root().string() : under), "FAILING_FILES_ACTION=" + action,
         "FAILING_FILES_AT=" + std::to_string(at), "FAILING_FILES_TIMES=" + std::to_string(times),
         "FAILING_FILES_CALLS=" + calls, "FAILING_FILES_LOG=" + log().string(),
         RONDO_BINARY_DIR "/tests/save_twice", root().string()},
        kTimeout_ms);
  }

 private:
  Scratch scratch_;
};

std::vector<std::int64_t> committed_steps(const fs::path& root) {
  std::vector<std::int64_t> steps;
  for (const Entry& entry : list(root))
    if (entry.state == State::committed) steps.push_back(entry.step);
  return steps;
}

// Checks that every committed checkpoint is intact and has what was saved, that nothing is damaged,
// and that at least one checkpoint is valid.
void check_invariants(const fs::path& root) {
  for (const Entry& entry : list(root)) {
    INFO(entry.folder << ": " << entry.why);
    CHECK(entry.state != State::damaged);
    if (entry.state != State::committed) continue;
    CHECK(verify(entry.folder, Depth::full).problems == std::vector<std::string>{});
    CHECK(holds(entry.folder, state_of(entry.step)));
  }
  CHECK_FALSE(committed_steps(root).empty());
}

// Checks that step 1 is deleted only after steps 2 and 3 are committed, as save_twice keeps two.
void check_nothing_went_early(const fs::path& root) {
  const std::vector<std::int64_t> steps = committed_steps(root);
  CHECK((steps.back() == 1 || steps == std::vector<std::int64_t>{3, 2}));
}

// A later run sweeps the leftovers, saves and prunes normally.
void check_recovery(const fs::path& root) {
  sweep_leftovers(root);
  save(root, 4);
  prune(root, 1);
  CHECK(committed_steps(root) == std::vector<std::int64_t>{4});
  check_invariants(root);
  CHECK(std::distance(fs::directory_iterator(root), fs::directory_iterator()) == 1);
}

long calls_of_a_whole_run(const std::string& calls) {
  const Place place;
  const ProgramResult run = place.save_twice("none", 0, 1, "", calls);
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK(committed_steps(place.root()) == std::vector<std::int64_t>{3, 2});
  return static_cast<long>(lines_of(place.log()).size());
}

// `kinds`: the calls that fail, as in FAILING_FILES_CALLS.
void disturb_each_call(const std::string& action, const std::string& kinds = "") {
  const long calls = calls_of_a_whole_run(kinds);
  REQUIRE(calls > (kinds.empty() ? 50 : 5));
  for (long at = 1; at <= calls; ++at) {
    const Place place;
    const ProgramResult run = place.save_twice(action, at, 1, "", kinds);
    const std::vector<std::string> log = lines_of(place.log());
    INFO(action << " at call " << at << " of " << calls << ": "
                << (at <= std::ssize(log) ? log[static_cast<std::size_t>(at) - 1] : "?") << "\n"
                << run.output);
    if (action == "kill")
      CHECK(run.exit_code == kKilled);
    else
      CHECK((run.exit_code == 0 || run.exit_code == 5 || run.exit_code == 9));
    if (run.exit_code == 0) {
      // A prune that cannot read the newer checkpoints deletes nothing, and that is not an error.
      const std::vector<std::int64_t> steps = committed_steps(place.root());
      CHECK((steps.size() >= 2 && steps[0] == 3 && steps[1] == 2));
    } else if (run.exit_code != kKilled) {
      CHECK_THAT(run.output, ContainsSubstring("save_twice: error: ") && ContainsSubstring("; "));
    }
    check_invariants(place.root());
    check_nothing_went_early(place.root());
    check_recovery(place.root());
  }
}

}  // namespace

TEST_CASE("a save or prune whose n-th file system call finds no space breaks nothing") {
  disturb_each_call("ENOSPC");
}
TEST_CASE("a save or prune whose n-th file system call is refused breaks nothing") {
  disturb_each_call("EACCES");
}
TEST_CASE("a save or prune whose n-th file system call has an I/O error breaks nothing") {
  disturb_each_call("EIO");
}
TEST_CASE("a save or prune whose n-th write is short breaks nothing") {
  disturb_each_call("short", "pwrite");
}
TEST_CASE("a save or prune that is killed at any of its file system calls breaks nothing") {
  disturb_each_call("kill");
}

TEST_CASE("an I/O error that passes does not fail the save") {
  const Place place;
  const ProgramResult run = place.save_twice("EIO", 1, 2, (place.root() / "step-2.tmp").string(), "fsync");
  CHECK(run.output.empty());
  CHECK(committed_steps(place.root()) == std::vector<std::int64_t>{3, 2});
  CHECK(holds(place.root() / "step-2", state_of(2)));
}

TEST_CASE("a failing fsync makes the whole file be written again") {
  const Place place;
  place.save_twice("EIO", 1, 1, (place.root() / "step-2.tmp").string(), "open,fsync");
  place.save_twice("EIO", 2, 1, (place.root() / "step-2.tmp-run-1-1/rank-00000.bin").string(), "open,fsync");
  std::string sequence;
  for (const std::string& line : lines_of(place.log()))
    if (line.find("rank-00000.bin") != std::string::npos && line.find("step-2.") != std::string::npos)
      sequence += line.find(" open ") != std::string::npos ? "open " : "fsync ";
  CHECK_THAT(sequence, Catch::Matchers::EndsWith("open fsync open fsync "));
}

TEST_CASE("an I/O error that stays fails its save after five retries, and the next save is made") {
  const Place place;
  const ProgramResult run =
      place.save_twice("EIO", 1, 1'000'000, (place.root() / "step-2.tmp").string(), "pwrite");
  CHECK(run.exit_code == 9);
  CHECK(lines_of(place.log()).size() == 6);
  CHECK_THAT(run.output,
             ContainsSubstring("save_twice: error: cannot write ") &&
                 ContainsSubstring("rank-00000.bin: Input/output error; check the disk or the network "
                                   "file system (dmesg)"));
  CHECK(committed_steps(place.root()) == std::vector<std::int64_t>{3, 1});
}

TEST_CASE("a disk without space from any call on leaves what was committed") {
  for (long at = 1; at <= 60; at += 3) {
    const Place place;
    const ProgramResult run = place.save_twice("ENOSPC", at, 1'000'000);
    INFO("from call " << at << "\n" << run.output);
    CHECK((run.exit_code == 9 || at > 50));
    check_invariants(place.root());
    check_nothing_went_early(place.root());
    check_recovery(place.root());
  }
}

}  // namespace rondo::checkpoint

// Tests runs whose disk is full: at the start, and during the run.
#include <sched.h>
#include <sys/mount.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

// Mounts a file system with `options` at `folder`, visible to this process and its children only.
// Returns false if the kernel does not allow it.
bool mount_small_disk(const std::filesystem::path& folder, const char* options) {
  std::filesystem::create_directories(folder);
  return (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, options) == 0;
}

// Returns "<exit code>\n<exit.json>\n<output>" of a run on the small disk, or "skip".
std::string run_on_small_disk(const Place& place, const char* options, const Words& words) {
  return in_child([&]() -> std::string {
    if (!mount_small_disk(place / "disk", options)) return "skip";
    const ProgramResult run = rondo(words);
    return fmt::format("{}\n{}\n{}", run.exit_code, text_of(place / "disk/run/exit.json"), run.output);
  });
}

TEST_CASE("a disk that fills up during a run ends it with 9, and exit.json says so") {
  const Place place;
  const std::string outcome = run_on_small_disk(
      place, "size=64k", place.launch(2, "disk/run", {"--training.steps=1000000", "--compile.dump=none"}));
  if (outcome == "skip") SKIP("private mounts are not permitted here");
  INFO(outcome);
  CHECK(outcome.substr(0, 2) == "9\n");
  // The file that fails first depends on the ends of the pages of the growing files.
  CHECK_THAT(outcome, ContainsSubstring("\"exit_code\": 9") &&
                          ContainsSubstring("cannot write " + (place / "disk/run/").string()) &&
                          ContainsSubstring(": No space left on device; free space or raise the limit"));
}

TEST_CASE("a disk too small for the graph's text ends the run with 9 before the first step") {
  const Place place;
  const std::string outcome =
      run_on_small_disk(place, "size=64k", place.train("disk/run", {"--compile.dump=all"}));
  if (outcome == "skip") SKIP("private mounts are not permitted here");
  INFO(outcome);
  CHECK(outcome.substr(0, 2) == "9\n");
  CHECK_THAT(outcome, ContainsSubstring("cannot write the graph to ") &&
                          ContainsSubstring("free disk space or set compile.dump") &&
                          !ContainsSubstring("step 1  loss "));
}

TEST_CASE("a disk without room for a folder ends the run with 9") {
  const Place place;
  const std::string outcome = run_on_small_disk(place, "size=64k,nr_inodes=1", place.train("disk/run"));
  if (outcome == "skip") SKIP("private mounts are not permitted here");
  INFO(outcome);
  CHECK(outcome.substr(0, 2) == "9\n");
  CHECK_THAT(outcome,
             ContainsSubstring("No space left on device; free space or raise the limit, then start again"));
}

}  // namespace
}  // namespace rondo

// `rondo checkpoint`: what it prints, and how it ends.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "apps/rondo/run_program.h"
#include "tests/checkpoint/states.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::checkpoint {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

// "<exit code>: <output>"
std::string said(std::vector<std::string> words) {
  words.insert(words.begin(), {RONDO_BINARY_DIR "/rondo", "checkpoint"});
  const ProgramResult result = run_program(words, 60'000);
  return fmt::format("{}: {}", result.exit_code, result.output);
}

}  // namespace

TEST_CASE("checkpoint ls lists all states, newest first, of a root or a run") {
  const Scratch scratch;
  const fs::path root = scratch / "run/checkpoint";
  save(root, 8);
  save(root, 9);
  CHECK_THAT(said({"ls", root}), ContainsSubstring("0: checkpoint") && ContainsSubstring("committed") &&
                                     ContainsSubstring("full") && ContainsSubstring(" KiB "));
  CHECK_THAT(said({"ls", scratch / "run"}),
             ContainsSubstring("0: checkpoint") && ContainsSubstring("step-9"));
  const std::string text = said({"ls", root});
  CHECK(text.find("step-9") < text.find("step-8"));
  fs::remove(root / "step-9/COMMITTED");
  CHECK_THAT(said({"ls", root}), ContainsSubstring("uncommitted") && ContainsSubstring("0: "));
  fs::remove(root / "step-8/rank-00000.bin");
  CHECK_THAT(said({"ls", root}),
             ContainsSubstring("5: ") && ContainsSubstring("damaged      " + (root / "step-8").string() +
                                                           "/rank-00000.bin is missing"));
}

TEST_CASE("checkpoint show says what one holds") {
  const Scratch scratch;
  const fs::path folder = save(scratch / "root", 8);
  CHECK_THAT(said({"show", folder}),
             ContainsSubstring("0: " + folder.string()) && ContainsSubstring("in 2 shards") &&
                 ContainsSubstring("\"sample\":32,") && ContainsSubstring("llama3 (fingerprint 0123)") &&
                 ContainsSubstring("model/embed") && ContainsSubstring("[16, 9]"));
  CHECK(said({"show", scratch / "none"}) ==
        "5: rondo: error: no such folder: " + (scratch / "none").string() +
            "; name the folder of checkpoints or of the run\n");
  CHECK_THAT(said({"show", scratch / "root"}), ContainsSubstring("is not a committed checkpoint"));
}

TEST_CASE("checkpoint verify reads every byte, or manifest and sizes") {
  const Scratch scratch;
  const fs::path root = scratch / "root", folder = save(root, 8);
  save(root, 9);
  CHECK_THAT(said({"verify", folder}), ContainsSubstring("0: " + folder.string() + ": valid (") &&
                                           ContainsSubstring("read and hashed"));
  std::string text = text_of(folder / "rank-00000.bin");
  text[3] ^= 4;
  write_text(folder / "rank-00000.bin", text);
  CHECK_THAT(said({"verify", folder, "--quick"}),
             ContainsSubstring("0: ") && ContainsSubstring("manifest and sizes"));
  CHECK_THAT(said({"verify", folder}), ContainsSubstring("5: " + folder.string() + ": DAMAGED\n") &&
                                           ContainsSubstring("chunk 0 (bytes 0 to"));
  CHECK_THAT(said({"verify", root}), ContainsSubstring("5: ") && ContainsSubstring("step-9: valid") &&
                                         ContainsSubstring("step-8: DAMAGED"));
  CHECK_THAT(said({"verify", root, "--quick"}), ContainsSubstring("0: "));
}

TEST_CASE("checkpoint prune says what goes and what can be resumed then, and a dry run only says it") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  for (int step = 1; step <= 3; ++step) save(root, step);
  save_weights(root, 4, "");
  const auto expected = [&](const char* what) {
    return fmt::format(
        "0: kept     {0}/step-3\nkept     {0}/step-2\n"
        "skipped  {0}/step-4: the weights alone: no run can resume from it\n{1}  {0}/step-1\n"
        "a run can resume from step 3, 2, and no longer from step 1\n",
        root.string(), what);
  };
  CHECK(said({"prune", root, "--keep", "2", "--dry-run"}) == expected("would go"));
  CHECK(fs::exists(root / "step-1"));
  CHECK(said({"prune", root, "--keep=2"}) == expected("deleted"));
  CHECK_FALSE(fs::exists(root / "step-1"));
}

TEST_CASE("checkpoint prune leaves a folder alone that a live run writes") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  for (int step = 1; step <= 3; ++step) save(root, step);
  const FolderLock lock = lock_root(root);
  CHECK_THAT(said({"prune", root, "--keep", "2"}),
             ContainsSubstring("6: ") && ContainsSubstring("is being written by another run"));
  CHECK(fs::exists(root / "step-1"));
}

TEST_CASE("checkpoint ends with 5 where nothing is valid") {
  const Scratch scratch;
  fs::create_directory(scratch / "empty");
  const std::string empty = (scratch / "empty").string();
  CHECK(said({"ls", empty}) == "5: no checkpoints in " + empty + "\n");
  CHECK(said({"verify", empty}) == "5: no valid checkpoint in " + empty + "\n");
  CHECK(said({"prune", empty, "--keep", "1"}) ==
        "5: " + empty + " has no checkpoint that a run could resume from; nothing is deleted\n");
}

TEST_CASE("checkpoint misused ends with 2 and says how") {
  const std::string tail = "; `rondo checkpoint --help` lists them\n";
  CHECK(said({}) == "2: rondo: error: checkpoint: SUBCOMMAND is missing" + tail);
  CHECK(said({"verfy"}) ==
        "2: rondo: error: checkpoint: unknown subcommand \"verfy\" (did you mean verify?)" + tail);
  const auto error = [](const std::string& action, const std::string& what) {
    return fmt::format(
        "2: rondo: error: checkpoint {0}: {1}; `rondo checkpoint {0} --help` lists the flags\n", action,
        what);
  };
  CHECK(said({"ls"}) == error("ls", "ROOT|RUN is missing"));
  CHECK(said({"ls", "a", "b"}) == error("ls", "\"b\" does not belong to a flag"));
  CHECK(said({"verify", "--quik", "a"}) == error("verify", "unknown flag --quik (did you mean --quick?)"));
  CHECK(said({"ls", "--quick", "a"}) == error("ls", "unknown flag --quick"));
  CHECK(said({"prune", "a"}) == error("prune", "--keep is missing"));
  CHECK(said({"prune", "a", "--keep"}) == error("prune", "--keep needs a value"));
  for (const char* number : {"0", "-1", "x", "", "1.5", "99999999"})
    CHECK(said({"prune", "a", std::string("--keep=") + number}) ==
          error("prune", fmt::format("--keep \"{}\" must be a whole number from 1 to 999999", number)));
  CHECK_THAT(said({"--help"}),
             ContainsSubstring("0: rondo checkpoint SUBCOMMAND") && ContainsSubstring("Exit code"));
  CHECK_THAT(said({"ls", "--help"}),
             ContainsSubstring("0: rondo checkpoint ls ROOT|RUN") && ContainsSubstring("Exit code"));
}

}  // namespace rondo::checkpoint

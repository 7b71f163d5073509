// Tests flipped bits, truncated files, full disks, read-only and vanished folders, and prunes of
// damaged checkpoints.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "apps/rondo/run_program.h"
#include "checkpoint/catalog.h"
#include "tests/checkpoint/states.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::checkpoint {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(folder)) files.push_back(file.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Overwrites one byte without truncating the file, which would be slow.
void write_over(const fs::path& file, std::size_t at, char byte) {
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>(at));
  out.put(byte);
}

// Returns whether reading everything gives the right bytes or an Error(checkpoint), but never
// wrong bytes.
bool read_is_right_or_refused(const fs::path& folder, const TestState& state) {
  try {
    return holds(folder, state);
  } catch (const Error& error) {
    return error.code() == ExitCode::checkpoint;
  }
}

std::string names(const std::vector<fs::path>& folders) {
  std::string text;
  for (const fs::path& folder : folders) text += folder.filename().string() + " ";
  return text;
}

void damage(const fs::path& folder) {
  const std::string text = text_of(folder / "rank-00000.bin");
  write_over(folder / "rank-00000.bin", 1, static_cast<char>(~text[1]));
}

bool mount_small_disk(const fs::path& folder, const char* options) {
  fs::create_directories(folder);
  return (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, options) == 0;
}

}  // namespace

TEST_CASE("each of 10,000 flipped bits, in any file, is found") {
  const Scratch scratch;
  const TestState state = state_of(1);
  const fs::path folder = save(scratch / "root", 1);
  std::vector<std::pair<fs::path, std::string>> files;
  std::size_t bytes = 0;
  for (const fs::path& file : files_of(folder)) {
    files.emplace_back(file, text_of(file));
    bytes += files.back().second.size();
  }
  std::mt19937_64 random(6);
  for (int round = 0; round < 10'000; ++round) {
    std::size_t at = random() % bytes, file = 0;
    while (at >= files[file].second.size()) at -= files[file++].second.size();
    const auto& [path, text] = files[file];
    const int bit = static_cast<int>(random() % 8);
    write_over(path, at, static_cast<char>(text[at] ^ (1 << bit)));
    INFO(path << " byte " << at << " bit " << bit);
    REQUIRE_FALSE(verify(folder, Depth::full).valid());
    if (round % 4 == 0) REQUIRE(read_is_right_or_refused(folder, state));
    write_over(path, at, text[at]);
  }
  CHECK(verify(folder, Depth::full).valid());
}

TEST_CASE("every file cut short, at any length, or grown by a byte, is found") {
  const Scratch scratch;
  const fs::path folder = save(scratch / "root", 1);
  for (const fs::path& file : files_of(folder)) {
    const std::string text = text_of(file);
    for (std::size_t length = 0; length < text.size(); ++length) {
      fs::resize_file(file, text.size() - length - 1);  // one byte shorter each time
      INFO(file << " cut to " << text.size() - length - 1);
      REQUIRE_FALSE(verify(folder, Depth::quick).valid());
    }
    write_text(file, text + "\n");
    INFO(file);
    CHECK_FALSE(verify(folder, Depth::quick).valid());
    write_text(file, text);
  }
  CHECK(verify(folder, Depth::full).valid());
}

TEST_CASE("a missing file, or a link or a pipe in its place, is found") {
  const Scratch scratch;
  const fs::path folder = save(scratch / "root", 1);
  for (const fs::path& file : files_of(folder)) {
    fs::rename(file, scratch / "aside");
    INFO(file);
    CHECK_FALSE(verify(folder, Depth::quick).valid());
    fs::create_symlink(scratch / "aside", file);
    CHECK_FALSE(verify(folder, Depth::full).valid());
    fs::remove(file);
    REQUIRE(mkfifo(file.c_str(), 0600) == 0);
    CHECK_FALSE(verify(folder, Depth::full).valid());
    fs::remove(file);
    fs::rename(scratch / "aside", file);
  }
  CHECK(verify(folder, Depth::full).valid());
}

TEST_CASE("a prune keeps the newest intact checkpoints and deletes older ones") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  for (int step = 1; step <= 6; ++step) save(root, step);
  damage(save(root, 2));
  fs::remove(root / "step-3/COMMITTED");
  fs::resize_file(root / "step-5/rank-00000.bin", 1);
  write_text(root / "notes.txt", "mine");
  write_text(root / "hf/model.safetensors", "mine");
  Proven proven;
  const PrunePlan plan = plan_prune(root, 2, proven);
  CHECK(names(plan.deleted) == "step-1 step-2.replaced-1 step-2 step-3 ");
  CHECK(plan.lost_steps == std::vector<std::int64_t>{2, 1});
  CHECK(list(root).size() == 7);
  const PrunePlan report = prune(root, 2);
  CHECK(report.deleted == plan.deleted);
  CHECK(names(report.kept) == "step-6 step-4 ");
  REQUIRE(report.damaged.size() == 1);
  CHECK(report.damaged[0].folder == root / "step-5");
  CHECK(names(files_of(root)) == "hf notes.txt step-4 step-5 step-6 ");
}

TEST_CASE("every kept checkpoint has been hashed, and damaged ones do not count") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  for (int step = 1; step <= 4; ++step) save(root, step);
  damage(root / "step-3");
  const PrunePlan plan = prune(root, 2);
  CHECK(names(plan.kept) == "step-4 step-2 ");
  CHECK_THAT(plan.damaged.at(0).why, ContainsSubstring("rank-00000.bin is damaged: chunk 0"));
  CHECK(names(plan.deleted) == "step-1 ");
}

TEST_CASE("weights alone and replaced checkpoints do not count, and the newest full one is always kept") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  save(root, 1);
  save(root, 2);
  save(root, 2);
  save_weights(root, 2, kWeights);
  save_weights(root, 3, "");
  const PrunePlan plan = prune(root, 2);
  CHECK(names(plan.kept) == "step-2 step-1 ");
  CHECK(plan.deleted.empty());
  CHECK(plan.beside.size() == 3);
  CHECK(names(prune(root, 1).kept) == "step-2 ");
  CHECK(names(files_of(root)) == "step-2 step-2-weights step-2.replaced-1 step-3 ");
  fs::remove_all(root / "step-2");
  CHECK(prune(root, 1).kept.empty());
  CHECK(names(files_of(root)) == "step-2-weights step-2.replaced-1 step-3 ");
}

TEST_CASE("what this process saved is hashed again only if its files have changed since") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  Proven proven;
  for (int step = 1; step <= 3; ++step) proven.add(save(root, step));
  CHECK(proven.holds(root / "step-2"));
  CHECK(names(plan_prune(root, 2, proven).kept) == "step-3 step-2 ");
  damage(root / "step-2");
  CHECK_FALSE(proven.holds(root / "step-2"));
  CHECK(names(plan_prune(root, 2, proven).kept) == "step-3 step-1 ");
  CHECK(proven.holds(root / "step-1"));
}

TEST_CASE("a prune that is stopped plans nothing") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  for (int step = 1; step <= 3; ++step) save(root, step);
  std::stop_source stop;
  stop.request_stop();
  Proven proven;
  const PrunePlan plan = plan_prune(root, 1, proven, stop.get_token());
  CHECK(plan.deleted.empty());
  CHECK_FALSE(proven.holds(root / "step-3"));
}

TEST_CASE("a prune deletes nothing on the strength of a damaged newest checkpoint") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  for (int step = 1; step <= 3; ++step) save(root, step);
  damage(root / "step-3");
  PrunePlan report = prune(root, 1);
  CHECK(names(report.deleted) == "step-1 ");
  CHECK(names(report.kept) == "step-2 ");
  CHECK_THAT(report.damaged.at(0).why, ContainsSubstring("rank-00000.bin is damaged: chunk 0"));
  damage(root / "step-2");
  save_weights(root, 1, "");
  report = prune(root, 1);
  CHECK(report.deleted.empty());
  CHECK(report.damaged.size() == 2);
}

TEST_CASE("a folder of checkpoints has one writer, through any link, and must be writable") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  save(root, 1);
  fs::create_directory_symlink(root, scratch / "link");
  {
    const FolderLock lock = lock_root(root);
    CHECK(
        error_of([&] { lock_root(scratch / "link"); }) ==
        "6: the folder of checkpoints " + (scratch / "link").string() +
            " is being written by another run that is still alive; choose another job.dump_folder, or wait");
  }
  CHECK(error_of([&] { lock_root(scratch / "link"); }) == "no error");
  fs::permissions(scratch.root(), fs::perms(0755));
  fs::permissions(root, fs::perms(0555));
  const std::string outcome = in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) return std::string("no other user");
    return error_of([&] { lock_root(root); });
  });
  fs::permissions(root, fs::perms(0755));
  CHECK_THAT(outcome, ContainsSubstring("6: the folder of checkpoints " + root.string() +
                                        " cannot be written: Permission denied; check its permissions"));
}

TEST_CASE("a prune to 0 keeps all, and never follows a link") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  for (int step = 1; step <= 2; ++step) save(root, step);
  CHECK(prune(root, 0).deleted.empty());
  fs::rename(root / "step-1", scratch / "elsewhere");
  fs::create_directory_symlink(scratch / "elsewhere", root / "step-1");
  CHECK(prune(root, 1).deleted.empty());
  CHECK(fs::exists(scratch / "elsewhere/COMMITTED"));
}

TEST_CASE("a disk that is too small ends the save with 9 and keeps the last good checkpoint") {
  const Scratch scratch;
  const std::string outcome = in_child([&]() -> std::string {
    if (!mount_small_disk(scratch / "disk", "size=256k")) return "skip";
    const fs::path root = scratch / "disk/root";
    save(root, 1);
    std::mt19937_64 random(1);
    const TestState large = {random_tensor(random, "w", "u8", {1 << 20})};
    const std::string refused = error_of([&] { save(root, 2, 2, large); });
    // The space is used up between the check and the write.
    const fs::path temp = begin_save(root, 2, "run-1", 1);
    const std::string full = error_of([&] { write_shard(temp, 0, pieces_of(large, 0, 1, even_split)); });
    abandon(temp);
    const std::string left =
        fmt::format("{} {}", list(root).size(), verify(root / "step-1", Depth::full).valid());
    return fmt::format("{}\n{}\n{} {}", refused, full, left, error_of([&] { save(root, 3); }));
  });
  if (outcome == "skip") SKIP("private mounts are not permitted here");
  CHECK_THAT(outcome, ContainsSubstring("9: ") && ContainsSubstring("and 5 % more; free space") &&
                          ContainsSubstring("\n9: cannot reserve space for ") &&
                          ContainsSubstring("No space left on device; free space or raise the quota\n") &&
                          ContainsSubstring("\n1 true no error"));
}

TEST_CASE("a disk without room for more files is refused before the first byte") {
  const Scratch scratch;
  const std::string outcome = in_child([&]() -> std::string {
    if (!mount_small_disk(scratch / "disk", "size=1m,nr_inodes=5")) return "skip";
    return error_of([&] { save(scratch / "disk/root", 1, 4, state_of(1)); });
  });
  if (outcome == "skip") SKIP("private mounts are not permitted here");
  CHECK_THAT(outcome, ContainsSubstring("9: the file system of ") &&
                          ContainsSubstring("can hold 2 more files, but a checkpoint needs 6 and 5 % more"));
}

TEST_CASE("a folder that may not be written ends the save with 5 and says so") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  fs::permissions(scratch.root(), fs::perms(0755));
  save(root, 1);
  fs::permissions(root, fs::perms(0555));
  const std::string outcome = in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) return std::string("no other user");
    return error_of([&] { save(root, 2); }) + fmt::format("\n{}", list(root).size());
  });
  fs::permissions(root, fs::perms(0755));
  CHECK(outcome == "5: cannot create " + (root / "step-2.tmp-run-1-1").string() +
                       ": Permission denied; check the permissions of the folder and how it is mounted\n1");
}

TEST_CASE("a folder that vanishes in the middle of a save fails it, and the next save creates it again") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  save(root, 1);
  for (int at = 1; at <= 30; ++at) {
    const ProgramResult run =
        run_program({"/usr/bin/env", "LD_PRELOAD=" RONDO_BINARY_DIR "/tests/libfailing_files.so",
                     "ASAN_OPTIONS=verify_asan_link_order=0", "FAILING_FILES_UNDER=" + root.string(),
                     "FAILING_FILES_ACTION=vanish", "FAILING_FILES_AT=" + std::to_string(at),
                     RONDO_BINARY_DIR "/tests/save_twice", root.string()},
                    60'000);
    INFO("at call " << at << "\n" << run.output);
    CHECK((run.exit_code == 5 || run.exit_code == 0));
    CHECK(verify(root / "step-3", Depth::full).valid());
    CHECK(verify(root.string() + ".gone/step-1", Depth::full).valid());
    fs::remove_all(root);
    fs::rename(root.string() + ".gone", root);
    sweep_leftovers(root);
  }
}

}  // namespace rondo::checkpoint

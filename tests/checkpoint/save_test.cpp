// Tests the protocol of a save: the state on disk after each step, and the errors.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>
#include <thread>

#include "checkpoint/catalog.h"
#include "checkpoint/committed.h"
#include "support/text/utc_time.h"
#include "tests/checkpoint/states.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::checkpoint {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

// "step-3 committed, step-2 damaged, ..."
std::string listed(const fs::path& root) {
  std::string text;
  for (const Entry& entry : list(root))
    text += (text.empty() ? "" : ", ") + entry.folder.filename().string() + " " + state_name(entry.state);
  return text;
}

}  // namespace

TEST_CASE("a saved checkpoint is listed, verified and read back bit for bit") {
  const Scratch scratch;
  const fs::path root = scratch / "run/checkpoint";
  CHECK(list(root).empty());
  const fs::path folder = save(root, 7);
  CHECK(folder == root / "step-7");
  CHECK(listed(root) == "step-7 committed");
  const Verdict verdict = verify(folder, Depth::full);
  CHECK(verdict.valid());
  CHECK(verdict.bytes_read > 0);
  CHECK(holds(folder, state_of(7)));
  const Reader reader(folder);
  CHECK(reader.manifest().data["step"] == 7);
  CHECK(reader.manifest().kind == Kind::full);
  CHECK(reader.manifest().shards.size() == 2);
  CHECK(utc_seconds(reader.manifest().created).has_value());
}

TEST_CASE("a checkpoint is its shards, the manifest and the mark, and nothing else") {
  const Scratch scratch;
  const fs::path folder = save(scratch / "root", 7);
  std::set<std::string> names;
  for (const auto& file : fs::directory_iterator(folder)) names.insert(file.path().filename());
  CHECK(names == std::set<std::string>{"COMMITTED", "manifest.json", "rank-00000.bin", "rank-00001.bin"});
  const std::string manifest = text_of(folder / "manifest.json");
  CHECK(text_of(folder / "COMMITTED") == "manifest.json " + std::to_string(manifest.size()) + " xxh3-128 " +
                                             to_hex(hash_of(std::as_bytes(std::span(manifest)))) + "\n");
}

TEST_CASE("pieces are stored in the order of names, at multiples of 64 bytes, with zeros between") {
  const Scratch scratch;
  const std::vector<std::byte> a(5, std::byte{0xaa}), b(3, std::byte{0xbb});
  const ShardRecord record =
      write_shard(scratch.root(), 3, {{"z", "u8", {5}, 0, 5, a}, {"b", "u8", {9}, 6, 9, b}});
  const std::string text = text_of(scratch / "rank-00003.bin");
  CHECK(text == std::string(3, '\xbb') + std::string(61, '\0') + std::string(5, '\xaa'));
  CHECK(record.bytes == 69);
  CHECK(record.pieces[0].name == "b");
  CHECK(record.chunks == std::vector{hash_of(std::as_bytes(std::span(text)))});
}

TEST_CASE("a rank without elements writes an empty shard") {
  const Scratch scratch;
  const fs::path folder = save(scratch / "root", 1, 60, state_of(1));
  CHECK(fs::file_size(folder / "rank-00059.bin") == 0);
  CHECK(verify(folder, Depth::full).valid());
  CHECK(holds(folder, state_of(1)));
}

TEST_CASE("a step that is saved again keeps the earlier one until a prune") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  save(root, 5, 2, state_of(50));
  save(root, 5, 2, state_of(51));
  save(root, 5, 3, state_of(52));
  CHECK(listed(root) == "step-5 committed, step-5.replaced-2 committed, step-5.replaced-1 committed");
  CHECK(holds(root / "step-5", state_of(52)));
  CHECK(holds(root / "step-5.replaced-2", state_of(51)));
  CHECK(holds(root / "step-5.replaced-1", state_of(50)));
}

TEST_CASE("leftovers of a killed save under the step's name are removed by the next save of the step") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  fs::remove(save(root, 5) / "COMMITTED");
  CHECK(listed(root) == "step-5 uncommitted");
  CHECK_FALSE(newest_valid(root, Depth::quick).newest.has_value());
  save(root, 5);
  CHECK(listed(root) == "step-5 committed");
}

TEST_CASE("leftovers are swept, and nothing else is") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  save(root, 5);
  const fs::path temp = begin_save(root, 6, "run-2", 1);
  write_text(root / "step-4.trash-1/rank-00000.bin", "x");
  write_text(root / "step-6.tmp-note.txt", "a file");
  write_text(root / "notes/step-6.tmp-a-1/x", "x");
  write_text(root / "step-x.tmp-a-1/x", "x");
  fs::create_directory_symlink(root / "notes", root / "step-9.tmp-link-1");
  CHECK(sweep_leftovers(root).size() == 2);
  CHECK_FALSE(fs::exists(temp));
  CHECK_FALSE(fs::exists(root / "step-4.trash-1"));
  for (const char* kept :
       {"step-5/COMMITTED", "step-6.tmp-note.txt", "notes/step-6.tmp-a-1/x", "step-x.tmp-a-1/x"})
    CHECK(fs::exists(root / kept));
  CHECK(fs::is_symlink(root / "step-9.tmp-link-1"));
  CHECK(sweep_leftovers(scratch / "missing").empty());
}

TEST_CASE("a prune that is stopped deletes no more") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  for (int step = 1; step <= 3; ++step) save(root, step);
  Proven proven;
  const PrunePlan plan = plan_prune(root, 1, proven);
  REQUIRE(plan.deleted.size() == 2);
  std::stop_source stop;
  stop.request_stop();
  carry_out(root, plan, stop.get_token());
  CHECK(list(root).size() == 3);
  begin_save(root, 9, "run-1", 1);
  CHECK(sweep_leftovers(root, stop.get_token()).empty());
  carry_out(root, plan);
  CHECK(list(root).size() == 2);
}

TEST_CASE("abandoning a save removes its folder, and never a checkpoint") {
  const Scratch scratch;
  const fs::path folder = save(scratch / "root", 5);
  const fs::path temp = begin_save(scratch / "root", 6, "run-1", 2);
  write_text(temp / "rank-00000.bin", "x");
  abandon(temp);
  abandon(temp);
  abandon(folder);
  CHECK(listed(scratch / "root") == "step-5 committed");
}

TEST_CASE("a missing shard is found before the commit") {
  const Scratch scratch;
  const fs::path temp = begin_save(scratch / "root", 6, "run-1", 1);
  Manifest manifest = empty_manifest(6);
  for (int rank = 0; rank < 2; ++rank)
    manifest.add(write_shard(temp, rank, pieces_of(state_of(6), rank, 2, even_split)));
  fs::remove(temp / "rank-00001.bin");
  CHECK(error_of([&] { commit(scratch / "root", temp, manifest); }) ==
        "5: " + (temp / "rank-00001.bin").string() + " is missing");
  write_text(temp / "rank-00001.bin", "short");
  CHECK_THAT(error_of([&] { commit(scratch / "root", temp, manifest); }),
             ContainsSubstring("rank-00001.bin has 5 bytes, but the manifest says "));
}

TEST_CASE("ranks that leave a hole, overlap or disagree are found before the commit") {
  const Scratch scratch;
  const std::vector<std::byte> bytes(100);
  const auto outcome = [&](Piece first, Piece second) {
    const fs::path temp = begin_save(scratch / "root", 6, "run-1", 1);
    return error_of([&] {
      Manifest manifest = empty_manifest(6);
      manifest.add(write_shard(temp, 0, {std::move(first)}));
      manifest.add(write_shard(temp, 1, {std::move(second)}));
      commit(scratch / "root", temp, manifest);
    });
  };
  const auto piece = [&](std::int64_t begin, std::int64_t end, std::string dtype = "u8") {
    return Piece{"w",   dtype, {100},
                 begin, end,   std::span(bytes).first(static_cast<std::size_t>(end - begin))};
  };
  CHECK(outcome(piece(0, 50), piece(50, 100)) == "no error");
  CHECK_THAT(outcome(piece(0, 50), piece(60, 100)),
             ContainsSubstring("5: ") &&
                 ContainsSubstring("manifest.json: tensor w: elements [50, 60) are in no shard"));
  CHECK_THAT(outcome(piece(0, 50), piece(50, 90)),
             ContainsSubstring("tensor w: elements [90, 100) are in no shard"));
  CHECK_THAT(outcome(piece(0, 50), piece(40, 100)),
             ContainsSubstring("tensor w: element 40 is in more than one piece"));
  CHECK_THAT(outcome(piece(0, 50), piece(0, 50)),
             ContainsSubstring("tensor w: element 0 is in more than one piece"));
  CHECK_THAT(outcome(piece(0, 50), piece(50, 100, "i8")),
             ContainsSubstring("5: ranks disagree about tensor w: u8[100], and i8[100] in rank-00001.bin"));
  const auto columns = [&](int part) {
    return piece_at(FlatShard({4, 50}, {1, 2, part}, 1, 0), "w", "u8", bytes);
  };
  CHECK(outcome(columns(0), columns(1)) == "no error");
  Piece rows = columns(1);
  rows.order = {};
  CHECK_THAT(
      outcome(columns(0), rows),
      ContainsSubstring("5: ranks disagree about tensor w: u8[4, 50] cut into 2 along dimension 1, and "
                        "u8[4, 50] in rank-00001.bin"));
}

TEST_CASE("a save that does not fit is refused before its first byte") {
  const Scratch scratch;
  CHECK_NOTHROW(check_space(scratch.root(), 1, 1));
  CHECK_THAT(error_of([&] { check_space(scratch.root(), std::int64_t{1} << 60, 1); }),
             ContainsSubstring("9: " + scratch.root().string() + " has ") &&
                 ContainsSubstring("iB free, but a checkpoint needs 1024.0 PiB and 5 % more; free space, "
                                   "lower checkpoint.keep_latest_k, or choose another folder"));
}

TEST_CASE("the newest checkpoint that verifies is chosen, and each skipped one is named with the reason") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  for (int step = 1; step <= 4; ++step) save(root, step);
  begin_save(root, 9, "run-1", 1);
  fs::remove(root / "step-4/COMMITTED");
  fs::resize_file(root / "step-3/rank-00001.bin", 3);
  {
    std::fstream file(root / "step-2/rank-00000.bin", std::ios::in | std::ios::out | std::ios::binary);
    file.put('\x55');
  }
  const Selection quick = newest_valid(root, Depth::quick);
  CHECK(quick.newest->step == 2);
  REQUIRE(quick.skipped.size() == 2);
  CHECK(quick.skipped[0].why == "it has no COMMITTED: its save did not finish, or it is being deleted");
  CHECK_THAT(quick.skipped[1].why, ContainsSubstring("rank-00001.bin has 3 bytes, but the manifest says"));
  const Selection full = newest_valid(root, Depth::full);
  CHECK(full.newest->step == 1);
  REQUIRE(full.skipped.size() == 3);
  CHECK_THAT(full.skipped[2].why, ContainsSubstring("rank-00000.bin is damaged: chunk 0 (bytes 0 to "));
  CHECK(newest_valid(root, Depth::quick, {root / "step-2"}).newest->step == 1);
  CHECK(newest_valid(scratch / "missing", Depth::full).newest == std::nullopt);
}

TEST_CASE("a checkpoint under the name of another step is refused") {
  const Scratch scratch;
  fs::rename(save(scratch / "root", 5), scratch / "root/step-50");
  CHECK(list(scratch / "root")[0].why ==
        (scratch / "root/step-50").string() + " contains step 5, not the step in its name");
  fs::rename(scratch / "root/step-50", scratch / "root/best");
  CHECK(list(scratch / "root").empty());
  CHECK(holds(scratch / "root/best", state_of(5)));
}

TEST_CASE("names of folders are parsed strictly") {
  CHECK(parse_folder_name("step-120")->step == 120);
  CHECK(parse_folder_name("step-0")->role == FolderName::Role::checkpoint);
  CHECK(parse_folder_name("step-7.replaced-12")->number == 12);
  CHECK(parse_folder_name("step-7.tmp-20260131-1")->role == FolderName::Role::temp);
  CHECK(parse_folder_name("step-7.trash-1")->role == FolderName::Role::trash);
  CHECK(parse_folder_name("step-7-weights")->role == FolderName::Role::weights);
  for (const char* name :
       {"step-", "step-01", "step--1", "step-+1", "step-1x", "step-1.", "step-1.tmp-", "step-1.replaced-",
        "step-1.trash-01", "step-1-hf", "step-1-weights2", "step-99999999999999999999", "Step-1", "steps-1"})
    CHECK_FALSE(parse_folder_name(name).has_value());
}

TEST_CASE("what a run deletes while its checkpoints are listed and verified is never taken for damaged") {
  const Scratch scratch;
  const fs::path root = scratch / "root";
  save(root, 1);
  std::atomic<bool> done = false;
  std::jthread run([&] {
    Proven proven;
    for (std::int64_t step = 2; step <= 300; ++step) {
      save(root, step);
      carry_out(root, plan_prune(root, 2, proven));
    }
    done = true;
  });
  std::size_t damaged = 0, deleted = 0, without = 0;
  const auto count = [&](const std::vector<Skipped>& skipped) {  // a mark goes before its checkpoint
    for (const Skipped& each : skipped) damaged += each.why.find("it has no COMMITTED") == each.why.npos;
  };
  while (!done) {
    for (const Entry& entry : list(root)) {
      damaged += entry.state == State::damaged;
      if (entry.state != State::committed) continue;
      const Verdict verdict = verify(entry.folder, Depth::full);
      deleted += verdict.is_deleted();
      damaged += !verdict.valid() && !verdict.is_deleted();
    }
    const Selection selection = newest_valid(root, Depth::full);
    without += !selection.newest;
    count(selection.skipped);
    Proven proven;
    count(plan_prune(root, 2, proven).damaged);
  }
  INFO(deleted << " were deleted while they were read");
  CHECK(damaged == 0);
  CHECK(without == 0);
}

}  // namespace rondo::checkpoint

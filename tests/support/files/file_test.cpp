// Errors of failed calls on files, and atomic files.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <chrono>
#include <thread>

#include "support/files/atomic_file.h"
#include "support/files/folder_lock.h"
#include "support/files/hub_advice.h"
#include "support/files/input_file.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

}  // namespace

TEST_CASE("a lack of resources is exit code 9 for every use, other errors have the exit code of the use") {
  for (const FileUse use :
       {FileUse::run, FileUse::data, FileUse::output, FileUse::weights, FileUse::checkpoint}) {
    for (const int resource_error :
         {ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM, EIO, ESTALE, ETIMEDOUT, ENOTCONN})
      CHECK(FileError("write", "f", resource_error, use).code() == ExitCode::resources);
    for (const int use_error : {ENOENT, EACCES, EPERM, EROFS, ENOTDIR, EISDIR, ELOOP})
      CHECK(FileError("write", "f", use_error, use).code() == exit_code_of(use));
  }
  CHECK(exit_code_of(FileUse::run) == ExitCode::environment);
  CHECK(exit_code_of(FileUse::data) == ExitCode::data);
  CHECK(exit_code_of(FileUse::output) == ExitCode::environment);
  CHECK(exit_code_of(FileUse::weights) == ExitCode::checkpoint);
  CHECK(exit_code_of(FileUse::checkpoint) == ExitCode::checkpoint);
}

TEST_CASE("an error names the call, the file, the reason and a remedy") {
  const auto text = [](int error_number) {
    return std::string(FileError("write", "a/b", error_number, FileUse::weights).what());
  };
  CHECK(text(ENOSPC) ==
        "cannot write a/b: No space left on device; free space or raise the limit, then start again");
  CHECK(text(EMFILE) == "cannot write a/b: Too many open files; raise the limit of open files (ulimit -n)");
  CHECK(text(EIO) ==
        "cannot write a/b: Input/output error; check the disk or the network file system (dmesg)");
  CHECK(text(EACCES) ==
        "cannot write a/b: Permission denied; check that the path exists and its permissions");
}

TEST_CASE(
    "a missing path that may be a repository of the Hub says that nothing is fetched, and how to fetch it") {
  CHECK(hub_advice("meta-llama/Llama-3.2-1B") ==
        "; nothing is fetched from the Hugging Face Hub: `hf download meta-llama/Llama-3.2-1B --local-dir "
        "meta-llama/Llama-3.2-1B` fetches a repository into a folder of this name");
  for (const char* path :
       {"config.json", "/no/folder", "./no/folder", "a/b/config.json", "no folder/x", "a/"})
    CHECK(hub_advice(path).empty());
  const Scratch scratch;
  CHECK(hub_advice(scratch / "x").empty());
}

TEST_CASE(
    "an atomic file has its old contents until the commit and its new ones after, whatever a killed process "
    "left") {
  const Scratch scratch;
  const fs::path path = scratch / "f";
  write_text(path, "old");
  write_text(scratch / ".f.part", "left by a process that was killed");
  {
    AtomicFile abandoned(path, FileUse::run);
    abandoned.write_at(0, bytes_of("abandoned"));
  }
  CHECK(text_of(path) == "old");
  CHECK(names_in(scratch.root()).size() == 1);
  write_text(scratch / ".f.part", "left by a process that was killed");
  AtomicFile file(path, FileUse::run);
  file.reserve(1000);
  file.write_at(3, bytes_of("def"));
  file.write_at(0, bytes_of("abc"));
  CHECK(text_of(path) == "old");
  file.commit();
  CHECK(text_of(path) == "abcdef");
  CHECK(names_in(scratch.root()).size() == 1);
}

TEST_CASE("two writers of one path do not interfere if they have different suffixes") {
  const Scratch scratch;
  AtomicFile first(scratch / "f", FileUse::weights, "part-1"),
      second(scratch / "f", FileUse::weights, "part-2");
  first.write_at(0, bytes_of("first"));
  second.write_at(0, bytes_of("2"));
  first.commit(/*durable=*/false);
  CHECK(text_of(scratch / "f") == "first");
  second.commit();
  CHECK(text_of(scratch / "f") == "2");
}

TEST_CASE("an output replaces no pipe or device, nor a link to one") {
  const Scratch scratch;
  REQUIRE(mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("/dev/null", scratch / "null");
  fs::create_symlink("nowhere", scratch / "link");
  for (const char* name : {"pipe", "null"})
    CHECK_THAT(error_of([&] { replace_file(scratch / name, "text", FileUse::output); }),
               ContainsSubstring("is a device, pipe or socket, and would be replaced; name another file"));
  CHECK(fs::is_fifo(scratch / "pipe"));
  CHECK(fs::is_symlink(scratch / "null"));
  replace_file(scratch / "link", "text", FileUse::output);
  CHECK(text_of(scratch / "link") == "text");
}

TEST_CASE("only a regular file is opened, and in a checkpoint no link") {
  const Scratch scratch;
  write_text(scratch / "f", "text");
  fs::create_symlink(scratch / "f", scratch / "link");
  REQUIRE(mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  CHECK(error_of([&] { File::open(scratch.root(), FileUse::data); }) ==
        "4: " + scratch.root().string() + ": not a regular file");
  CHECK_THAT(error_of([&] { InputFile(scratch / "pipe", FileUse::weights); }),
             EndsWith("pipe: not a regular file"));
  CHECK(read_file(scratch / "link", 4, FileUse::weights) == "text");
  CHECK_THAT(error_of([&] { read_file(scratch / "link", 4, FileUse::checkpoint); }),
             EndsWith("check the permissions of the folder and how it is mounted"));
  CHECK(error_of([&] { read_file(scratch / "f", 3, FileUse::weights); }) ==
        "5: " + (scratch / "f").string() + " has 4 bytes, but files of this kind may have at most 3");
}

TEST_CASE("a read beyond the end reports where the file ends") {
  const Scratch scratch;
  write_text(scratch / "f", "text");
  const File file = File::open(scratch / "f", FileUse::checkpoint);
  std::string out(4, ' ');
  CHECK(file.read_some_at(2, std::as_writable_bytes(std::span(out))) == 2);
  CHECK(out == "xt  ");
  CHECK(error_of([&] { file.read_at(2, std::as_writable_bytes(std::span(out))); }) ==
        "5: cannot read " + (scratch / "f").string() +
            ": it ends at byte 4, but more is expected; it was truncated");
}

TEST_CASE("a folder has one lock by any link, and it ends with its owner") {
  const Scratch scratch;
  fs::create_directory(scratch / "folder");
  fs::create_directory_symlink(scratch / "folder", scratch / "link");
  {
    const auto lock = FolderLock::take(scratch / "folder", FileUse::run);
    REQUIRE(lock);
    CHECK_FALSE(FolderLock::take(scratch / "link", FileUse::run));
  }
  CHECK(FolderLock::take(scratch / "link", FileUse::run));
  {
    const auto lock = FolderLock::take(scratch / "folder", FileUse::run);
    std::filesystem::remove(scratch / "folder" / FolderLock::kFile);
    // whoever removed the lock file takes over
    CHECK(FolderLock::take(scratch / "folder", FileUse::run));
  }
  CHECK(error_of([&] { FolderLock::take(scratch / "none", FileUse::run); }) ==
        "6: cannot open " + (scratch / "none").string() +
            ": No such file or directory; check its permissions, or choose another job.dump_folder");
}

TEST_CASE("the lock of another node is waited for, and its holder is named") {
  const Scratch scratch;
  std::optional<FolderLock> lock = FolderLock::take(scratch.root(), FileUse::run);
  REQUIRE(lock);
  CHECK(FolderLock::holder_elsewhere(scratch.root()).empty());
  write_text(scratch / FolderLock::kFile, "12 another-node\n");
  CHECK(FolderLock::holder_elsewhere(scratch.root()) ==
        ": process 12 on another-node; if that machine is down, remove " +
            (scratch / FolderLock::kFile).string());
  std::jthread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    lock.reset();
  });
  CHECK_FALSE(FolderLock::take(scratch.root(), FileUse::run));
  CHECK(FolderLock::take_patiently(scratch.root(), FileUse::run));
  CHECK(FolderLock::holder_elsewhere(scratch.root()).empty());
}

TEST_CASE("the lock of this node is waited for briefly") {
  const Scratch scratch;
  std::optional<FolderLock> lock = FolderLock::take(scratch.root(), FileUse::run);
  CHECK_FALSE(FolderLock::take_patiently(scratch.root(), FileUse::run));
  std::jthread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    lock.reset();
  });
  CHECK(FolderLock::take_patiently(scratch.root(), FileUse::run));
}

}  // namespace rondo

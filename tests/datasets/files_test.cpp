#include "datasets/documents/files.h"

#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "datasets/open_source.h"
#include "tests/datasets/temp_folder.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<std::string> ids(const std::string& paths) {
  std::vector<std::string> out;
  for (const SourceFile& file : find_files(paths).files) out.push_back(file.id);
  return out;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a folder is read recursively, sorted by the bytes of the relative path") {
  TempFolder folder;
  for (const char* name : {"b.txt", "a/z.txt", "a/B.txt", "a.txt", "a/deep/er/x"}) folder.write(name, "text");
  CHECK(ids(folder.path()) == Names{"a.txt", "a/B.txt", "a/deep/er/x", "a/z.txt", "b.txt"});
}

TEST_CASE("ids do not depend on the folder's location or on how its path is written") {
  TempFolder one, two;
  for (const TempFolder* folder : {&one, &two}) folder->write("sub/a.txt", "text");
  CHECK(ids(one.path()) == ids(two.path() + "/"));
  CHECK(ids(one.path("sub/a.txt")) == Names{"a.txt"});
}

TEST_CASE("a list keeps its order, and spaces around its entries are ignored") {
  TempFolder folder;
  folder.write("b/2.txt", "text");
  folder.write("a/1.txt", "text");
  CHECK(ids(folder.path("b") + " , " + folder.path("a") + ",") == Names{"2.txt", "1.txt"});
}

TEST_CASE("a glob matches within a folder level, and folders that match are read") {
  TempFolder folder;
  for (const char* name : {"a1.txt", "a2.txt", "b1.txt", "a3/in/side.txt"}) folder.write(name, "text");
  CHECK(ids(folder.path("a*")) == Names{"a1.txt", "a2.txt", "a3/in/side.txt"});
  CHECK(ids(folder.path("?[12].txt")) == Names{"a1.txt", "a2.txt", "b1.txt"});
  CHECK(ids(folder.path("a*/in/*.txt")) == Names{"a3/in/side.txt"});
}

TEST_CASE("a file whose name has glob characters is taken literally") {
  TempFolder folder;
  folder.write("a[1].txt", "text");
  folder.write("a1.txt", "text");
  CHECK(ids(folder.path("a[1].txt")) == Names{"a[1].txt"});
}

TEST_CASE("symlinks to folders and files are followed, and loops end") {
  TempFolder folder, elsewhere;
  elsewhere.write("there.txt", "text");
  folder.write("here/x.txt", "text");
  folder.link("..", "here/up");
  folder.link(elsewhere.path(), "linked");
  folder.link(elsewhere.path("there.txt"), "one.txt");
  CHECK(ids(folder.path()) == Names{"here/x.txt", "linked/there.txt", "one.txt"});
}

TEST_CASE("hidden files and folders and pipes are skipped and counted") {
  TempFolder folder;
  folder.write("a.txt", "text");
  folder.write(".hidden", "text");
  folder.write(".git/config", "text");
  REQUIRE(mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  const FoundFiles found = find_files(folder.path());
  CHECK(found.files.size() == 1);
  CHECK(found.skipped_hidden == 2);
  CHECK(found.skipped_special == 1);
}

TEST_CASE("a missing path is refused with its name and what may be named") {
  CHECK_THAT(data_error([] { find_files("/no/such/place"); }),
             ContainsSubstring("data path \"/no/such/place\": no such file or folder. Name a text file"));
}

TEST_CASE("the address of an object store is refused as an address, with what to do") {
  CHECK_THAT(data_error([] { find_files("s3://bucket/text"); }),
             ContainsSubstring("data path \"s3://bucket/text\": is an address, and data is read from file "
                               "systems only. Mount the store, or copy the files"));
}

TEST_CASE("an empty list, an empty folder and a glob without matches are errors") {
  TempFolder folder;
  folder.write("full/a.txt", "text");
  std::filesystem::create_directory(folder.path("empty"));
  CHECK_THAT(data_error([] { find_files(" , "); }), ContainsSubstring("empty. Name a text file"));
  CHECK_THAT(data_error([&] { find_files(folder.path("empty")); }), ContainsSubstring("no file in it"));
  // A valid entry does not hide an invalid one.
  CHECK_THAT(data_error([&] { find_files(folder.path("full") + "," + folder.path("empty")); }),
             ContainsSubstring("no file in it"));
  CHECK_THAT(data_error([&] { find_files(folder.path("*.md")); }), ContainsSubstring("nothing matches"));
}

TEST_CASE("a double star is refused with what to write instead") {
  CHECK_THAT(data_error([] { find_files("data/**/*.txt"); }),
             ContainsSubstring("** is not supported. Name the folder: folders are read recursively"));
}

TEST_CASE("a dangling or circular symlink is an error that names it") {
  TempFolder folder;
  folder.write("a.txt", "text");
  folder.link("gone.txt", "dangling");
  CHECK_THAT(data_error([&] { find_files(folder.path()); }),
             ContainsSubstring("cannot read the symlink " + folder.path("dangling") +
                               ": No such file or directory"));
  std::filesystem::remove(folder.path("dangling"));
  folder.link("self", "self");
  for (const std::string& path : {folder.path(), folder.path("self")})
    CHECK_THAT(data_error([&] { find_files(path); }),
               ContainsSubstring("cannot read the symlink " + folder.path("self") + ": Too many levels"));
}

TEST_CASE("files that are listed twice or skipped as binary are reported with a path") {
  TempFolder folder;
  const std::string text = folder.write("a.txt", std::string(100, 'x'));
  const std::string binary = folder.write("b.dat", std::string(3, '\0'));
  const ByteTokenizer tokenizer;
  const auto twice = open_source(folder.path() + "," + text, tokenizer);
  CHECK(twice->documents() == 2);
  const Names warnings = twice->counts().warnings;
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0] ==
        "1 of 3 files are skipped as binary (a NUL in their first 8 KiB), the first is " + binary);
  CHECK_THAT(warnings[1], ContainsSubstring("a.txt and " + text + " are one file: its documents count"));
  CHECK(open_source(folder.path(), tokenizer)->counts().warnings.size() == 1);
}

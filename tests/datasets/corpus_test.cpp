#include "datasets/documents/corpus.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <sstream>

#include "datasets/documents/order.h"
#include "tests/datasets/temp_folder.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<std::string> texts(const std::string& paths) {
  Corpus corpus(paths);
  std::vector<std::string> out;
  for (const Document& document : corpus.documents())
    out.emplace_back(corpus.read(document, 0, document.bytes));
  return out;
}

using Texts = std::vector<std::string>;

std::string open_error(const std::string& paths) {
  return data_error([&] { Corpus{paths}; });
}

// Returns status and output of a command; the caller adds 2>&1.
std::pair<int, std::string> run(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  for (int c; (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  return {WEXITSTATUS(pclose(pipe)), output};
}

}  // namespace

TEST_CASE("every text file is a document, with any bytes") {
  TempFolder folder;
  folder.write("a.txt", "one");
  folder.write("b", "t\xc3w\xff o\r\n");
  CHECK(texts(folder.path()) == Texts{"one", "t\xc3w\xff o\r\n"});
}

TEST_CASE("binary and empty files are skipped and counted") {
  TempFolder folder;
  folder.write("a.txt", "text");
  folder.write("b.o", std::string("\x7f"
                                  "ELF\0\0",
                                  6));
  folder.write("empty.txt", "");
  folder.write("late.txt", std::string(9000, 'x') + '\0');  // after the first 8 KiB
  Corpus corpus(folder.path());
  CHECK(corpus.documents().size() == 2);
  CHECK(corpus.skipped_binary() == 1);
  CHECK(corpus.skipped_empty() == 1);
}

TEST_CASE("every line of JSONL is a document, read in part or whole") {
  TempFolder folder;
  const std::string path = folder.write("a.jsonl",
                                        "{\"text\": \"first\"}\r\n"
                                        "\n"
                                        "{\"id\": 3, \"text\": \"sec\\u00f6nd\\n\"}\n"
                                        "{\"text\": \"\"}\n"
                                        "{\"text\": \"no newline at the end\"}");
  CHECK(texts(path) == Texts{"first", "sec\xc3\xb6nd\n", "no newline at the end"});
  Corpus corpus(path);
  CHECK(corpus.skipped_empty() == 1);
  CHECK(corpus.read(corpus.documents()[1], 2, 5) == "c\xc3\xb6");
  CHECK(corpus.read(corpus.documents()[0], 1, 3) == "ir");
  CHECK(corpus.documents()[1].id_hash == stable_hash("a.jsonl:3"));
}

TEST_CASE("JSONL lines that cross the border of read chunks are read whole") {
  TempFolder folder;
  std::string contents;
  Texts expected;
  for (int i = 0; i < 9; ++i) {
    expected.push_back(
        std::string(1'000'000 + static_cast<std::size_t>(i) * 77'777, static_cast<char>('a' + i)));
    contents += "{\"text\": \"" + expected.back() + "\"}\n";
  }
  expected.push_back(std::string(9'000'000, 'z'));  // longer than two chunks
  contents += "{\"text\": \"" + expected.back() + "\"}\n";
  CHECK(texts(folder.write("a.jsonl", contents)) == expected);
}

TEST_CASE("a bad JSONL line is an error with file, line, column and reason") {
  TempFolder folder;
  const std::string good = "{\"text\": \"x\"}\n";
  CHECK_THAT(
      open_error(folder.write("a.jsonl", good + good + "{\"text\": oops}\n")),
      ContainsSubstring(folder.path("a.jsonl") + ":3:10: expected a value. A line of JSONL is an object like "
                                                 "{\"text\": \"...\"}"));
  CHECK_THAT(open_error(folder.write("b.jsonl", good + "{\"content\": \"x\"}\n")),
             ContainsSubstring(folder.path("b.jsonl") + ":2:1: the object has no field \"text\", but "
                                                        "\"content\". A line of JSONL"));
  CHECK_THAT(open_error(folder.write("c.jsonl", "{\"text\": [\"x\"]}\n")),
             ContainsSubstring(folder.path("c.jsonl") + ":1:10: the field \"text\" is not a string"));
}

TEST_CASE("a path without documents is refused with the counts of skipped files") {
  TempFolder folder;
  folder.write("a.bin", std::string(3, '\0'));
  folder.write("b.txt", "");
  CHECK_THAT(open_error(folder.path()), ContainsSubstring("no document in 2 files (1 binary, 1 empty)"));
}

TEST_CASE("a file that shrank or was removed after it was opened is an error that names it") {
  TempFolder folder;
  const std::string text = folder.write("a.txt", "0123456789");
  Corpus corpus(text);
  const Document document = corpus.documents()[0];
  std::filesystem::resize_file(text, 4);
  CHECK(corpus.read(document, 0, 4) == "0123");
  CHECK_THAT(data_error([&] { corpus.read(document, 2, 8); }),
             ContainsSubstring(text + ": changed while in use: the document of 10 bytes at byte 0"));

  TempFolder two;
  two.write("a.txt", "first");
  two.write("b.txt", "second");
  Corpus both(two.path());
  std::filesystem::remove(two.path("a.txt"));
  CHECK_THAT(data_error([&] { both.read(both.documents()[0], 0, 5); }),
             ContainsSubstring("cannot open " + two.path("a.txt") + ": No such file or directory"));
}

TEST_CASE("a JSONL file that changed in place after it was opened is an error that names it") {
  TempFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"text\": \"line\\nline\"}\n");
  Corpus corpus(path);
  for (const char* changed : {"{\"text\": \"line\\qline\"}\n", "{\"text\": \"line--line\"}\n"}) {
    write_text(path, changed);
    CHECK_THAT(data_error([&] { corpus.read(corpus.documents()[0], 0, 3); }),
               ContainsSubstring(path + ": changed while in use"));
  }
}

TEST_CASE("empty lines are counted, also millions of them") {
  TempFolder folder;
  const std::string many((5 << 20) + 3, '\n');  // more than a chunk
  const std::string path =
      folder.write("a.jsonl", many + "{\"text\": \"one\"}\n" + many + "\r\n{\"text\": 2}\n");
  CHECK_THAT(open_error(path), ContainsSubstring(fmt::format("{}:{}:", path, 2 * many.size() + 3)));
  const Corpus corpus({{.path = path, .id = "a.jsonl"}}, "text", OnBadRecord::skip);
  REQUIRE(corpus.documents().size() == 1);
  CHECK(corpus.documents()[0].id_hash == stable_hash(fmt::format("a.jsonl:{}", many.size() + 1)));
}

TEST_CASE(
    "a line that is too long is refused by its number, and takes little more than the limit of memory") {
  const auto peak_bytes = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024;
  };
  TempFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"text\": \"one\"}\n");
  std::filesystem::resize_file(path, std::uintmax_t{4} << 30);
  const std::int64_t before = peak_bytes();
  CHECK_THAT(open_error(path), ContainsSubstring(path + ": line 2 has more than 256 MiB"));
  CHECK(peak_bytes() - before < 320 << 20);
}

TEST_CASE("a packed corpus has the documents of its list") {
  TempFolder folder;
  const std::string path =
      folder.write("a.packed", "rondo corpus 1\n3 x y.h\n0 none.h\n4 b/z.h\n\nabc\n\n12");
  Corpus corpus(path);
  CHECK(texts(path) == Texts{"abc", "\n\n12"});
  CHECK(corpus.skipped_empty() == 1);
  CHECK(corpus.documents()[0].id_hash == stable_hash("x y.h"));
}

TEST_CASE("a damaged packed corpus is refused with file and line") {
  TempFolder folder;
  const auto error = [&](const std::string& contents) {
    return open_error(folder.write("a.packed", contents));
  };
  CHECK_THAT(error("rondo corpus 2\n"),
             ContainsSubstring("a.packed:1: a packed corpus begins with the line"));
  CHECK_THAT(error(""), ContainsSubstring("a.packed:1: a packed corpus begins with the line"));
  CHECK_THAT(error("rondo corpus 1\n3 a.h\nabc"),
             ContainsSubstring(":1: the list of documents does not end"));
  CHECK_THAT(error("rondo corpus 1\n3 a.h\nx b.h\n\nabc"),
             ContainsSubstring(":3: expected \"<bytes> <path>\""));
  CHECK_THAT(error("rondo corpus 1\n-3 a.h\n\nabc"), ContainsSubstring(":2: expected \"<bytes> <path>\""));
  CHECK_THAT(error("rondo corpus 1\n99999999999999999999 a.h\n\nabc"), ContainsSubstring(":2: expected"));
  CHECK_THAT(
      error("rondo corpus 1\n1 a.h\n9223372036854775807 b.h\n\nabc"),
      ContainsSubstring(":3: the file ends before the contents of this document. Build the file again"));
  CHECK_THAT(error("rondo corpus 1\n3 a.h\n\nabcd"),
             ContainsSubstring("the file has 1 bytes after its last"));
}

TEST_CASE("every truncation of a packed corpus is refused") {
  TempFolder folder;
  const std::string whole = "rondo corpus 1\n3 a.h\n12 b.h\n\nabc0123456789xx";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    REQUIRE(open_error(folder.write("a.packed", whole.substr(0, length))) != "no error");
  }
}

TEST_CASE("make_corpus.sh packs the headers of a folder into a corpus of the same documents") {
  TempFolder folder;
  folder.write("include/b.h", "#pragma once\n");
  folder.write("include/a/x.hpp", "int x;");
  folder.write("include/a/y.cuh", "\n\nint y;\n\n");
  folder.write("include/a.h", "// a\n");
  folder.write("include/empty.h", "");
  const std::string script = std::string(RONDO_SOURCE_DIR) + "/scripts/make_corpus.sh ";
  const auto [status, output] =
      run(script + folder.path("include") + " " + folder.path("out/deep") + " 2>&1");
  INFO(output);
  REQUIRE(status == 0);
  CHECK_THAT(output, ContainsSubstring("headers.packed: 4 documents"));

  Corpus loose(folder.path("include")), packed(folder.path("out/deep"));
  REQUIRE(loose.documents().size() == packed.documents().size());
  CHECK(texts(folder.path("include")) == texts(folder.path("out/deep")));
  for (std::size_t i = 0; i < loose.documents().size(); ++i)
    CHECK(loose.documents()[i].id_hash == packed.documents()[i].id_hash);

  std::stringstream listing;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("out/deep")))
    listing << entry.path().filename().string();
  CHECK(listing.str() == "headers.packed");
}

TEST_CASE("make_corpus.sh refuses wrong usage, folders without headers, and names that it cannot list") {
  TempFolder folder;
  folder.write("include/a.txt", "text");
  const std::string script = std::string(RONDO_SOURCE_DIR) + "/scripts/make_corpus.sh ";
  CHECK(run(script + "2>&1").first == 2);
  CHECK(run(script + "/no/such/folder " + folder.path("out") + " 2>&1").first == 4);
  const auto [none, no_headers] = run(script + folder.path("include") + " " + folder.path("out") + " 2>&1");
  CHECK(none == 4);
  CHECK_THAT(no_headers, ContainsSubstring("no *.h, *.hpp or *.cuh below"));
  folder.write("include/a b.h", "text");
  const auto [space, spaces] = run(script + folder.path("include") + " " + folder.path("out") + " 2>&1");
  CHECK(space == 4);
  CHECK_THAT(spaces, ContainsSubstring("have spaces, quotes or backslashes"));
  CHECK(std::filesystem::is_empty(folder.path("out")));
}

#include "datasets/documents/text_file.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <functional>
#include <random>

#include "datasets/documents/corpus.h"
#include "tests/datasets/compressors.h"
#include "tests/datasets/temp_folder.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string some_text(std::size_t bytes, unsigned seed = 5) {
  std::mt19937 random(seed);
  std::string text(bytes, ' ');
  for (char& c : text) c = "etaoin shrdlu\n"[random() % 14];
  return text;
}

std::string read(TextFile& file, std::int64_t offset, std::size_t bytes) {
  std::string text(bytes, '\0');
  text.resize(file.read_some_at(offset, std::as_writable_bytes(std::span(text))));
  return text;
}

std::string whole(const std::string& path) {
  TextFile file(path);
  return read(file, 0, static_cast<std::size_t>(file.bytes()) + 10);
}

}  // namespace

TEST_CASE("a compressed file is read at any offset, in any order") {
  const TempFolder folder;
  const std::string text = some_text(900'000);
  for (const Compressor& kind : compressors()) {
    TextFile file(folder.write("a.txt" + kind.suffix, kind.compress(text)));
    std::mt19937 random(1);
    for (int i = 0; i < 40; ++i) {
      const std::size_t offset = random() % 1'000'000, bytes = random() % 300'000;
      REQUIRE(read(file, static_cast<std::int64_t>(offset), bytes) ==
              (offset > text.size() ? "" : text.substr(offset, bytes)));
      if (i == 20) CHECK(file.bytes() == 900'000);
    }
  }
}

TEST_CASE("consecutive members and frames are one text, and a text may be empty") {
  const TempFolder folder;
  for (const Compressor& kind : compressors()) {
    const std::string two = kind.compress("one\n") + kind.compress("") + kind.compress(some_text(300'000));
    CHECK(whole(folder.write("a" + kind.suffix, two)) == "one\n" + some_text(300'000));
    CHECK(whole(folder.write("b" + kind.suffix, kind.compress(""))).empty());
  }
}

TEST_CASE("a truncated or damaged compressed file is an error that names it, never another text") {
  const TempFolder folder;
  const std::string text = some_text(3'000);
  for (const Compressor& kind : compressors()) {
    const std::string good = kind.compress(text), name = "a" + kind.suffix;
    for (const std::size_t end : {std::size_t{0}, std::size_t{1}, good.size() / 2, good.size() - 1}) {
      const std::string path = folder.write(name, good.substr(0, end));
      CHECK(data_error([&] { whole(path); }) == path + ": ends early. Fetch or compress the file again");
    }
    std::mt19937 random(2);
    int refused = 0;
    for (int i = 0; i < 400; ++i) {
      std::string bad = good;
      bad[random() % bad.size()] = static_cast<char>(random());
      if (random() % 4 == 0) bad.insert(random() % bad.size(), some_text(random() % 9, random()));
      const std::string path = folder.write(name, bad);
      std::string read;
      const std::string error = data_error([&] { read = whole(path); });
      REQUIRE((error == "no error" ? read == text : error.starts_with(path)));
      refused += error != "no error";
    }
    CHECK(refused > 300);
    CHECK_THAT(data_error([&] { whole(folder.write(name, "plain text, " + some_text(50))); }),
               ContainsSubstring(name + ": has the name of a compressed file, but does not begin like one"));
  }
}

TEST_CASE("a compressed corpus has the documents of the uncompressed one") {
  const TempFolder folder;
  const std::string lines = "{\"body\": \"one\\n\"}\n\n{\"x\": 1, \"body\": \"two\"}\n";
  folder.write("plain/a.jsonl", lines);
  folder.write("plain/b.txt", some_text(10'000));
  folder.write("plain/c.packed", "rondo corpus 1\n3 x/y\n2 z\n\nabcde");
  const Corpus plain(find_files(folder.path("plain")).files, "body");
  REQUIRE(plain.documents().size() == 5);
  for (const Compressor& kind : compressors()) {
    const std::string place = "packed" + kind.suffix;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path("plain"))) {
      std::ifstream in(entry.path(), std::ios::binary);
      folder.write(place + "/" + entry.path().filename().string() + kind.suffix,
                   kind.compress({std::istreambuf_iterator<char>(in), {}}));
    }
    const Corpus packed(find_files(folder.path(place)).files, "body");
    REQUIRE(packed.documents().size() == plain.documents().size());
    CorpusReader of_plain(plain.sources(), "body"), of_packed(packed.sources(), "body");
    for (std::size_t i = packed.documents().size(); i-- > 0;) {
      const Document &a = plain.documents()[i], &b = packed.documents()[i];
      CHECK(a.id_hash == b.id_hash);
      REQUIRE(a.bytes == b.bytes);
      CHECK(of_plain.read(a, 0, a.bytes) == of_packed.read(b, 0, b.bytes));
    }
  }
}

TEST_CASE(
    "a compressed file is known by its content, with any name, and the case of a suffix does not matter") {
  const TempFolder folder;
  const std::string text = some_text(1000);
  for (const Compressor& kind : compressors())
    for (const char* name : {"plain.txt", "none", "UPPER.GZ", "UPPER.ZST", "long.zstd"})
      CHECK(whole(folder.write(name, kind.compress(text))) == text);
  CHECK(without_compression("a.jsonl.GZ") == "a.jsonl");
  CHECK(without_compression("a.jsonl.zstd") == "a.jsonl");
}

#if RONDO_ZLIB
TEST_CASE("zeros behind a member of gzip are padding, and another member may follow them") {
  const TempFolder folder;
  const Compressor gzip = compressors()[0];
  const std::string zeros(300'000, '\0');
  CHECK(whole(folder.write("a.gz", gzip.compress("one") + std::string(512, '\0'))) == "one");
  CHECK(whole(folder.write("b.gz", gzip.compress("one") + zeros + gzip.compress("two"))) == "onetwo");
  CHECK_THAT(data_error([&] { whole(folder.write("c.gz", gzip.compress("one") + zeros + "two")); }),
             ContainsSubstring("c.gz: is damaged before byte"));
}
#endif

#if RONDO_ZSTD
TEST_CASE("a window of Zstandard may have up to 2 GiB") {
  const TempFolder folder;
  for (const int window : {28, 31}) {
    // Without the size of the content, the frame keeps the window that was set.
    ZSTD_CCtx* context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window);
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    std::string out(1000, '\0');
    ZSTD_inBuffer in{"long", 4, 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    ZSTD_compressStream2(context, &to, &in, ZSTD_e_flush);
    REQUIRE(ZSTD_compressStream2(context, &to, &in, ZSTD_e_end) == 0);
    ZSTD_freeCCtx(context);
    out.resize(to.pos);
    CHECK(whole(folder.write("a.zst", out)) == "long");
  }
}

TEST_CASE("a frame of Zstandard that claims a terabyte is refused for its window, not as damaged") {
  using namespace std::string_literals;
  const TempFolder folder;
  const std::string header = "\x28\xb5\x2f\xfd"s, block = "\x09\x00\x00x"s;
  for (const std::string& frame : {header + "\xe0"s + "\0\0\0\0\0\x01\0\0"s + block,  // size of the content
                                   header + "\0\xff"s + block})                       // largest window
    CHECK_THROWS_WITH(whole(folder.write("a.zst", frame)),
                      ContainsSubstring("a.zst: a frame needs a window above 2 GiB, the most that is read"));
}

TEST_CASE("a frame of other data may be before the frames of text, in a file with any name") {
  using namespace std::string_literals;
  const TempFolder folder;
  for (const char* name : {"a", "a.zst"})
    CHECK(whole(folder.write(name, "\x5f\x2a\x4d\x18\x02\0\0\0xy"s + compressors().back().compress("one"))) ==
          "one");
}

TEST_CASE("a frame that was compressed with a dictionary is refused for it, not as damaged") {
  using namespace std::string_literals;
  const TempFolder folder;
  const std::string frame = "\x28\xb5\x2f\xfd\x21\x07\x03\x19\0\0one"s;  // of dictionary 7
  CHECK_THROWS_WITH(
      whole(folder.write("a.zst", frame)),
      ContainsSubstring("a.zst: a frame needs the dictionary of its compression, which is not read"));
}
#endif

#if !RONDO_ZLIB || !RONDO_ZSTD
TEST_CASE("a program without the library names the package to install") {
  const TempFolder folder;
  const std::string suffix = RONDO_ZLIB ? ".zst" : ".gz";
  CHECK_THAT(data_error([&] { whole(folder.write("a" + suffix, "x")); }),
             ContainsSubstring("this program was built without"));
}
#endif

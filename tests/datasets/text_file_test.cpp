#include "datasets/documents/text_file.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <functional>
#include <random>

#include "datasets/documents/corpus.h"
#include "tests/datasets/temp_folder.h"
#if RONDO_ZLIB
#include <zlib.h>
#endif
#if RONDO_ZSTD
#include <zstd.h>
#endif

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string some_text(std::size_t bytes, unsigned seed = 5) {
  std::mt19937 random(seed);
  std::string text(bytes, ' ');
  for (char& c : text) c = "etaoin shrdlu\n"[random() % 14];
  return text;
}

struct Kind {
  std::string suffix;
  std::function<std::string(const std::string&)> compress;
};

// Returns the compression formats that the program was built with.
std::vector<Kind> kinds() {
  std::vector<Kind> kinds;
#if RONDO_ZLIB
  kinds.push_back({".gz", [](const std::string& text) {
                     z_stream stream{};
                     deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
                     std::string out(deflateBound(&stream, text.size()) + 64, '\0');
                     stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
                     stream.avail_in = static_cast<uInt>(text.size());
                     stream.next_out = reinterpret_cast<Bytef*>(out.data());
                     stream.avail_out = static_cast<uInt>(out.size());
                     deflate(&stream, Z_FINISH);
                     out.resize(stream.total_out);
                     deflateEnd(&stream);
                     return out;
                   }});
#endif
#if RONDO_ZSTD
  kinds.push_back({".zst", [](const std::string& text) {
                     std::string out(ZSTD_compressBound(text.size()), '\0');
                     ZSTD_CCtx* context = ZSTD_createCCtx();
                     ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
                     out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
                     ZSTD_freeCCtx(context);
                     return out;
                   }});
#endif
  return kinds;
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
  for (const Kind& kind : kinds()) {
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
  for (const Kind& kind : kinds()) {
    const std::string two = kind.compress("one\n") + kind.compress("") + kind.compress(some_text(300'000));
    CHECK(whole(folder.write("a" + kind.suffix, two)) == "one\n" + some_text(300'000));
    CHECK(whole(folder.write("b" + kind.suffix, kind.compress(""))).empty());
  }
}

TEST_CASE("a truncated or damaged compressed file is an error that names it, never another text") {
  const TempFolder folder;
  const std::string text = some_text(3'000);
  for (const Kind& kind : kinds()) {
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
               ContainsSubstring("is damaged before byte"));
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
  for (const Kind& kind : kinds()) {
    const std::string place = "packed" + kind.suffix;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path("plain"))) {
      std::ifstream in(entry.path(), std::ios::binary);
      folder.write(place + "/" + entry.path().filename().string() + kind.suffix,
                   kind.compress({std::istreambuf_iterator<char>(in), {}}));
    }
    const Corpus packed(find_files(folder.path(place)).files, "body");
    REQUIRE(packed.documents().size() == plain.documents().size());
    CorpusReader of_plain(plain.paths()), of_packed(packed.paths());
    for (std::size_t i = packed.documents().size(); i-- > 0;) {
      const Document &a = plain.documents()[i], &b = packed.documents()[i];
      CHECK(a.id_hash == b.id_hash);
      REQUIRE(a.bytes == b.bytes);
      CHECK(of_plain.read(a, 0, a.bytes) == of_packed.read(b, 0, b.bytes));
    }
  }
}

#if !RONDO_ZLIB || !RONDO_ZSTD
TEST_CASE("a program without the library names the package to install") {
  const TempFolder folder;
  const std::string suffix = RONDO_ZLIB ? ".zst" : ".gz";
  CHECK_THAT(data_error([&] { whole(folder.write("a" + suffix, "x")); }),
             ContainsSubstring("this program was built without"));
}
#endif

// The tables are those of tests/attack/corpus/tables, which pyarrow wrote: the rows of rows.jsonl
// there, with two nulls and an empty text, in other row groups, record batches, encodings and
// compressions.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <random>

#include "datasets/documents/corpus.h"
#include "datasets/open_source.h"
#include "datasets/select_files.h"
#include "datasets/tables/text_table.h"
#include "tests/datasets/compressors.h"
#include "tests/datasets/pair_tokenizer.h"
#include "tests/datasets/token_bytes.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

namespace fs = std::filesystem;

constexpr const char* kSeeds = RONDO_SOURCE_DIR "/tests/attack/corpus/tables/";
constexpr std::int64_t kTexts = 9;  // of 12 rows

std::string seed(const std::string& name) { return text_of(kSeeds + name); }

std::string open_error(const std::string& path, const TextOptions& options = {}) {
  return data_error([&] { open_source(path, ByteTokenizer(), options); });
}

#if RONDO_ARROW
constexpr TextOptions kSkip = {.on_bad_record = OnBadRecord::skip};

std::vector<std::string> tables() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kSeeds))
    if (entry.path().extension() != ".jsonl") names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> texts_of(Corpus& corpus) {
  std::vector<std::string> texts;
  for (const Document& document : corpus.documents())
    texts.emplace_back(corpus.read(document, 0, document.bytes));
  return texts;
}

Corpus corpus_of(const std::string& path) {
  return Corpus(find_files(path).files, "text", OnBadRecord::skip);
}

std::size_t threads() {
  const fs::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}
#endif

}  // namespace

#if RONDO_ARROW
TEST_CASE("a table has the documents of its rows as JSON lines, with every tokenizer") {
  const TempFolder folder;
  REQUIRE(tables().size() == 8);
  const std::string lines = folder.write("lines/rows", seed("rows.jsonl"));
  const auto bytes = open_source(lines, ByteTokenizer(), kSkip);
  REQUIRE(bytes->documents() == kTexts);
  for (const std::string& name : tables()) {
    CAPTURE(name);
    const std::string path = folder.write(name + "_/rows", seed(name));
    const auto source = open_source(path, ByteTokenizer(), kSkip);
    CHECK(read_all(*source) == read_all(*bytes));
    for (std::int64_t i = 0; i < kTexts; ++i) CHECK(source->id_hash(i) == bytes->id_hash(i));
    CHECK(read_all(*open_source(path, PairTokenizer(), kSkip)) ==
          read_all(*open_source(lines, PairTokenizer(), kSkip)));
  }
}

TEST_CASE("the documents of a table are read in any order and in parts, and no thread is started") {
  const TempFolder folder;
  Corpus lines = corpus_of(folder.write("rows.jsonl", seed("rows.jsonl")));
  const std::vector<std::string> expected = texts_of(lines);
  const std::size_t before = threads();
  for (const std::string& name : tables()) {
    CAPTURE(name);
    Corpus corpus = corpus_of(folder.write(name, seed(name)));
    REQUIRE(texts_of(corpus) == expected);
    CHECK(corpus.skipped_bad() == 2);
    CHECK(corpus.skipped_empty() == 1);
    std::mt19937 random(3);
    for (int i = 0; i < 60; ++i) {
      const std::size_t d = random() % expected.size();
      const std::size_t begin = random() % expected[d].size();
      const std::size_t end = begin + random() % (expected[d].size() - begin + 1);
      CHECK(corpus.read(corpus.documents()[d], static_cast<std::int64_t>(begin),
                        static_cast<std::int64_t>(end)) == expected[d].substr(begin, end - begin));
    }
  }
  CHECK(threads() == before);
}

TEST_CASE("a null of a table is a bad record that names its row") {
  const TempFolder folder;
  const std::string path = folder.write("a.parquet", seed("snappy.parquet"));
  CHECK_THAT(open_error(path),
             StartsWith(path + ":3: the column \"text\" is null. training.on_bad_record=") &&
                 ContainsSubstring("--on-bad-record skip, leaves such rows out"));
  const Corpus corpus = corpus_of(path);
  CHECK(corpus.warnings() ==
        std::vector<std::string>{"bad records skipped: 2, the column \"text\" is null; the "
                                 "first is " +
                                 path + ":3"});
}

TEST_CASE("a column that is missing or no text is refused with those that are text") {
  const TempFolder folder;
  for (const std::string name : {"snappy.parquet", "stream.arrow"}) {
    CAPTURE(name);
    const std::string path = folder.write(name, seed(name));
    CHECK(open_error(path, {.text_key = "body"}) ==
          path +
              ": the table has no column \"body\". Columns of text: \"text\"; others: \"id\", \"tags\". "
              "training.text_key, or --text-key, names the column");
    CHECK_THAT(open_error(path, {.text_key = "id"}),
               ContainsSubstring("the column \"id\" is ") &&
                   ContainsSubstring(", not text. Columns of text: \"text\". training.text_key"));
    CHECK_THAT(open_error(path, {.text_key = "tags"}), ContainsSubstring(", not text. Columns of text"));
  }
}

TEST_CASE("an encrypted footer of Parquet is refused as encrypted, not as damaged") {
  const TempFolder folder;
  const std::string path = folder.write("a.parquet", "PARE" + std::string(200, 'x') + "PARE");
  CHECK(open_error(path) ==
        path +
            ": is encrypted, and keys are not read. Write the table without encryption, and name that file");
}

TEST_CASE("a truncated or damaged table is an error that names it") {
  const TempFolder folder;
  for (const std::string& name : tables()) {
    const std::string good = seed(name);
    // A stream may end behind any record batch.
    const bool has_footer = !good.starts_with("\xff");
    for (std::size_t end = 12; end < good.size(); end += has_footer ? 37 : good.size()) {
      CAPTURE(name, end);
      const std::string path = folder.write(name, good.substr(0, end));
      CHECK_THAT(open_error(path, kSkip),
                 StartsWith(path + ": is damaged") && ContainsSubstring("Fetch the file again"));
    }
  }
  std::string flipped = seed("zstd_v2.parquet");
  flipped[200] = static_cast<char>(flipped[200] ^ 1);  // in the text of the first page, which has a checksum
  const std::string path = folder.write("a.parquet", flipped);
  CHECK_THAT(open_error(path, kSkip), StartsWith(path + ": is damaged: row group 0 of 2: "));
}

TEST_CASE("a table that is replaced while it is read is an error") {
  const TempFolder folder;
  const std::string path = folder.write("a.parquet", seed("snappy.parquet"));
  const Corpus corpus = corpus_of(path);
  folder.write("a.parquet", seed("delta.parquet").substr(0, 300));
  CorpusReader reader(corpus.sources(), "text");
  CHECK_THAT(data_error([&] { reader.read(corpus.documents()[0], 0, 1); }),
             StartsWith(path + ": is damaged"));
  CorpusReader other(corpus.sources(), "text");
  folder.write("a.parquet", seed("snappy.parquet"));
  Document moved = corpus.documents()[0];
  moved.offset = 40;
  CHECK_THAT(data_error([&] { other.read(moved, 0, 1); }),
             StartsWith(path + ": changed while in use: the document of 3 bytes at row 41 is missing"));
}

TEST_CASE("a folder of the hub and one of Datasets.save_to_disk have the documents of their tables") {
  const TempFolder folder;
  folder.write("hub/README.md", "---\nlicense: mit\n---\n" + std::string(5000, 'r'));
  folder.write("hub/.gitattributes", "*.parquet filter=lfs");
  folder.write("hub/dataset_infos.json", "{\"default\": {}}");
  for (const char* name : {"train-00000-of-00002", "train-00001-of-00002"})
    folder.write(std::string("hub/data/") + name + ".parquet", seed("snappy.parquet"));
  folder.write("hub/data/train-00002-of-00002.parquet.incomplete", "PAR1");
  const SelectedFiles hub = select_files(folder.path("hub"), "text");
  REQUIRE(hub.files.size() == 2);
  CHECK(hub.files[0].id == "data/train-00000-of-00002.parquet");
  CHECK(open_source(folder.path("hub"), ByteTokenizer(), kSkip)->documents() == 2 * kTexts);

  folder.write("disk/dataset_dict.json", "{\"splits\": [\"train\", \"test\"]}");
  for (const std::string split : {"disk/train/", "disk/test/"}) {
    folder.write(split + "data-00000-of-00001.arrow", seed("stream.arrow"));
    folder.write(split + "dataset_info.json", "{\n  \"description\": \"" + std::string(3000, 'x') + "\"\n}");
    folder.write(split + "cache-0123456789abcdef.arrow", seed("stream.arrow"));  // of Dataset.map
    folder.write(split + "state.json", "{\n  \"_fingerprint\": \"abc\",\n  \"_split\": \"train\"\n}");
  }
  const auto disk = open_source(folder.path("disk"), ByteTokenizer(), kSkip);
  CHECK(disk->documents() == 2 * kTexts);
  CHECK(disk->counts().notes.at(0) ==
        folder.path("disk") +
            ": files read: 2; left out: 5 JSON (the first is dataset_dict.json), 2 cached by datasets (the "
            "first is test/cache-0123456789abcdef.arrow)");
  CHECK(open_source(folder.path("disk/train"), ByteTokenizer(), kSkip)->documents() == kTexts);
}

TEST_CASE("a file of save_to_disk without record batches is damaged, not an empty data set") {
  const TempFolder folder;
  const std::string path = folder.write("d/train/data-00000-of-00001.arrow",
                                        std::string("ARROW1\0\0", 8) + std::string(200, '\0'));
  folder.write("d/train/dataset_info.json", "{\"description\": \"" + std::string(300, 'x') + "\"}");
  folder.write("d/train/state.json", "{\"_fingerprint\": \"abc\"}");
  CHECK_THAT(open_error(folder.path("d")), StartsWith(path + ": is damaged: "));
}

TEST_CASE("facts of a table are its columns, row groups and compression") {
  const auto facts = [](const char* name) { return open_table(std::string(kSeeds) + name, "text")->facts(); };
  CHECK(facts("snappy.parquet") == TextTable::Facts{{"columns", "id: INT32, text: String, tags: nested"},
                                                    {"rows", "12 in 3 row groups"},
                                                    {"compression", "snappy"}});
  CHECK(facts("zstd_v2.parquet").back().second == "zstd");
  CHECK(facts("lz4.feather") ==
        TextTable::Facts{{"columns", "id: int32, text: large_string"}, {"batches", "2"}});
}
#else
TEST_CASE("a table is refused by a program without Arrow, with what brings it") {
  for (const char* name : {"snappy.parquet", "stream.arrow", "lz4.feather"})
    CHECK(open_error(std::string(kSeeds) + name) ==
          std::string(kSeeds) + name +
              ": this program was built without Arrow, which reads Parquet and Arrow IPC. Run "
              "scripts/setup.sh --arrow, and scripts/build.sh again");
}
#endif

TEST_CASE("a compressed table is refused with what to do") {
  const TempFolder folder;
  for (const Compressor& kind : compressors()) {
    const std::string path = folder.write("a.parquet" + kind.suffix, kind.compress(seed("snappy.parquet")));
    CHECK_THAT(open_error(path), StartsWith(path + ": Parquet is not supported here. Unpack it to " +
                                            folder.path("a.parquet") + " first"));
  }
}

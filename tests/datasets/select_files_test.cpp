#include "datasets/select_files.h"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "datasets/loader.h"
#include "datasets/open_source.h"
#include "datasets/tokenize.h"
#include "tests/datasets/compressors.h"
#include "tests/datasets/pair_tokenizer.h"
#include "tests/datasets/token_bytes.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

using Names = std::vector<std::string>;

const std::string kThree =
    "{\"text\": \"hello\", \"url\": \"u\"}\n{\"text\": \"world\"}\n{\"text\": \"again\"}\n";
const Documents kThreeTokens = {{256, 'h', 'e', 'l', 'l', 'o', 257},
                                {256, 'w', 'o', 'r', 'l', 'd', 257},
                                {256, 'a', 'g', 'a', 'i', 'n', 257}};

const std::string kPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1500\n";

Names ids(const SelectedFiles& selected) {
  Names names;
  for (const SourceFile& file : selected.files) names.push_back(file.id);
  return names;
}

Names ids(const std::string& paths) { return ids(select_files(paths, "text")); }

std::string refusal(const std::string& paths) {
  return data_error([&] { select_files(paths, "text"); });
}

// The documents of a path, as training reads them, and as `data tokenize` and the token cache write
// them, which must be the same.
Documents documents(const TempFolder& folder, const std::string& paths, const TextOptions& options = {}) {
  const ByteTokenizer bytes;
  const auto source = open_source(paths, bytes, options);
  Documents read = read_all(*source);

  TokenizeOptions job;
  job.files = select_files(paths, options.text_key).files;
  job.input = paths;
  job.output = folder.path("check/out.tokens");
  job.text_key = options.text_key;
  job.on_bad_record = options.on_bad_record;
  std::filesystem::create_directories(folder.path("check"));
  const TokenizeResult result = tokenize(job, bytes, [](const TokenizeProgress&) {});
  const auto tokens = open_rondo_tokens({job.output, ""}, {});
  CHECK(read_all(*tokens) == read);
  CHECK(result.skipped_bad == source->counts().skipped_bad);
  for (std::int64_t i = 0; i < tokens->documents(); ++i) CHECK(tokens->id_hash(i) == source->id_hash(i));
  std::filesystem::remove_all(folder.path("check"));

  TextOptions cached = options;
  cached.token_cache = folder.path("cache");
  CHECK(open_source(paths, PairTokenizer(), cached)->documents() == source->documents());
  return read;
}

}  // namespace

TEST_CASE("JSON lines have the same documents under every name, for training and tokenizing") {
  const TempFolder folder;
  for (const char* name : {"a.jsonl", "a.json", "a.ndjson", "a.jsonlines", "a.JSONL", "a"})
    CHECK(documents(folder, folder.write(name, kThree)) == kThreeTokens);
  for (const Compressor& kind : compressors())
    for (const std::string& name : {"b.json" + kind.suffix, std::string("c.jsonl")})
      CHECK(documents(folder, folder.write(name, kind.compress(kThree))) == kThreeTokens);
}

TEST_CASE("files beside one data format are left out and counted by kind") {
  const TempFolder folder;
  folder.write("d/data.jsonl", kThree);
  folder.write("d/README.md", "---\nlicense: mit\n---\n" + std::string(500, 'r'));
  folder.write("d/LICENSE", std::string(500, 'l'));
  folder.write("d/dataset_infos.json", "{\"default\": {}}");
  folder.write("d/_SUCCESS", "\n");
  folder.write("d/data.jsonl.sha256", "0123");
  folder.write("d/names.txt", "a b");
  folder.write("d/.gitattributes", "x");
  folder.write("d/image.png", std::string("\x89PNG\0", 5));
  for (const char* name : {"rest.jsonl.incomplete", "x.jsonl.tmp", "x.lock", "x.jsonl~", "x.BAK", "x.part",
                           "x.swp", "x.jsonl.partial", "x.crdownload", "x.filepart"})
    folder.write(std::string("d/") + name, kThree);
  CHECK(documents(folder, folder.path("d")) == kThreeTokens);
  const SelectedFiles selected = select_files(folder.path("d"), "text");
  CHECK(ids(selected) == Names{"data.jsonl"});
  CHECK(selected.skipped_hidden == 1);
  CHECK(selected.skipped_binary == 1);
  CHECK(selected.notes ==
        Names{folder.path("d") +
              ": files read: 1; left out: 1 JSON (dataset_infos.json), 1 binary (image.png), 5 "
              "text (the first is LICENSE), 10 unfinished (the first is rest.jsonl.incomplete)"});
  CHECK(open_source(folder.path("d"), ByteTokenizer())->counts().notes == selected.notes);
}

TEST_CASE("data of a training split and of others is read with a warning that names the splits") {
  const TempFolder folder;
  for (const char* name :
       {"train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001", "test"})
    folder.write(fmt::format("files/data/{}.jsonl", name), kThree);
  for (const char* name : {"train/data-0", "test/data-0"})
    folder.write(fmt::format("folders/en/{}.jsonl", name), kThree);
  const auto warning = [&](const char* name, const char* splits, const char* one) {
    return fmt::format(
        "data path \"{}\": files of several splits are read as one: {}. To read one split, name its files, "
        "such as \"{}\"",
        folder.path(name), splits, folder.path(one));
  };
  CHECK(select_files(folder.path("files"), "text").warnings ==
        Names{warning("files", "1 test, 2 train, 1 validation", "files/data/train*")});
  CHECK(select_files(folder.path("folders"), "text").warnings ==
        Names{warning("folders", "1 test, 1 train", "folders/en/train")});
  CHECK(select_files(folder.path("files/data/train*"), "text").warnings.empty());
  CHECK(select_files(folder.path("folders/en/train"), "text").warnings.empty());

  for (const char* name : {"trains.jsonl", "testament.jsonl", "latest.jsonl"})
    folder.write(fmt::format("others/{}", name), kThree);
  CHECK(select_files(folder.path("others"), "text").warnings.empty());
  for (const char* name : {"train.py", "test/train_test.py"})
    folder.write(fmt::format("sources/{}", name), "import os\n");
  CHECK(select_files(folder.path("sources"), "text").warnings.empty());
}

TEST_CASE("a file that is named itself is read whatever its name is") {
  const TempFolder folder;
  CHECK(ids(folder.write("a.txt.tmp", "text")) == Names{"a.txt.tmp"});
  CHECK(ids(folder.write("README.md", "text")) == Names{"README.md"});
  folder.write("b.txt", "text");
  CHECK(ids(folder.path("*.t*")) == Names{"b.txt"});
}

TEST_CASE("a folder of several data formats is refused with all of them and a glob for one") {
  const TempFolder folder;
  folder.write("d/a.jsonl", kThree);
  folder.write("d/b.csv", "a,b\n1,2\n");
  folder.write("d/c.csv", "a,b\n1,2\n");
  CHECK(refusal(folder.path("d")) ==
        "data path \"" + folder.path("d") + "\": holds several data formats: 2 CSV (the first is " +
            folder.path("d/b.csv") + "), 1 JSONL (" + folder.path("d/a.jsonl") +
            "). Name the files of one format, or a glob such as \"" + folder.path("d/*.jsonl") + "\"");
  CHECK(ids(folder.path("d/*.jsonl")) == Names{"a.jsonl"});
  folder.write("t/a.tokens", rondo_bytes({{1}}));
  folder.write("t/b.ids", llmc_bytes({1, 2}));
  CHECK_THAT(refusal(folder.path("t")), ContainsSubstring("1 Rondo tokens") && ContainsSubstring("1 llm.c"));
  CHECK(ids(folder.path("t/a.tokens") + "," + folder.path("t/b.ids")) == Names{"a.tokens", "b.ids"});
}

TEST_CASE("the glob that a mixed folder is refused with names files that are read") {
  const TempFolder folder;
  const auto glob = [&](const std::string& name) {
    const std::string message = refusal(folder.path(name));
    const std::size_t at = message.find("a glob such as \"");
    return at == message.npos ? "" : message.substr(at + 16, message.size() - at - 17);
  };
  for (const Compressor& kind : compressors()) {
    folder.write("a/x.json" + kind.suffix, kind.compress(kThree));
    folder.write("a/table.csv" + kind.suffix, kind.compress("a,b\n1,2\n"));
    CHECK(glob("a") == folder.path("a/*.json" + kind.suffix));
    CHECK_NOTHROW(select_files(glob("a"), "text"));
    std::filesystem::remove_all(folder.path("a"));
  }
  folder.write("b/lines.json", kThree);  // *.json would match both
  folder.write("b/list.json", "[{\"text\": \"a\"}]");
  CHECK(glob("b").empty());
  folder.write("b/more/a.ndjson", kThree);
  CHECK(glob("b") == folder.path("b/more/*.ndjson"));
  folder.write("c/a.csv", "a,b\n1,2\n");  // neither is read
  folder.write("c/b.tsv", "a\tb\n");
  CHECK(glob("c").empty());
}

TEST_CASE("an empty file is of no data format, whatever its name is") {
  const TempFolder folder;
  folder.write("d/data.jsonl", kThree);
  for (const char* name : {"a.csv", "b.parquet", "c.tokens", "d.packed", "e.json", "f.jsonl.gz"})
    folder.write(std::string("d/") + name, "");
  CHECK(documents(folder, folder.path("d")) == kThreeTokens);
  CHECK(select_files(folder.path("d"), "text").notes ==
        Names{folder.path("d") + ": files read: 1; left out: 4 empty (the first is b.parquet), 2 text (the "
                                 "first is a.csv)"});
  folder.write("t/a.txt", "text");
  folder.write("t/b.parquet", "");
  CHECK(ids(folder.path("t")) == Names{"a.txt"});
}

TEST_CASE("JSON without text that is more than the text beside it is refused, not trained on as prose") {
  const TempFolder folder;
  const std::string json = folder.write("d/data.json", "{\"rows\": [" + std::string(400, '1') + "]}");
  folder.write("d/notes.txt", std::string(300, 'n'));
  CHECK_THAT(refusal(folder.path("d")), ContainsSubstring(json + ": JSON is not supported"));
  folder.write("d/more.txt", std::string(300, 'm'));
  CHECK(ids(folder.path("d")) == Names{"data.json", "more.txt", "notes.txt"});
}

TEST_CASE("a file that is compressed twice is refused by name") {
  const TempFolder folder;
  for (const Compressor& kind : compressors()) {
    const std::string path = folder.write("a.jsonl" + kind.suffix, kind.compress(kind.compress(kThree)));
    CHECK(refusal(path) == path + ": a file that is compressed twice is not supported here. Unpack it to " +
                               folder.path("a.jsonl") + " first. Then name '" + folder.path("a.jsonl") + "'");
  }
}

TEST_CASE("a folder of text files is a corpus, with small files of other formats in it") {
  const TempFolder folder;
  folder.write("d/a.txt", std::string(500, 'a'));
  folder.write("d/README.md", "read me");
  folder.write("d/src/main.c", "{ int x; }");
  folder.write("d/package.json", "{\"name\": \"x\"}");
  folder.write("d/list.json", "[{\"a\": 1}]");
  folder.write("d/log.json", "{\"level\": 1}\n{\"level\": 2}\n");
  folder.write("d/table.csv", "a,b\n");
  folder.write("d/icon.ico", std::string("\0\1", 2));
  folder.write("d/part.zip", "PK\x03\x04");
  const SelectedFiles selected = select_files(folder.path("d"), "text");
  CHECK(ids(selected) == Names{"README.md", "a.txt", "icon.ico", "list.json", "log.json", "package.json",
                               "src/main.c", "table.csv"});
  CHECK(selected.notes ==
        Names{folder.path("d") + ": files read: 8; left out: 1 zip archive (part.zip)",
              folder.path("d") +
                  ": most of it is text, so these are read as text, too: 1 CSV (table.csv), 1 JSON "
                  "(package.json), 1 JSON array (list.json), 1 JSONL (log.json). Name the other "
                  "files, or a glob, to leave them out"});
  const auto source = open_source(folder.path("d"), ByteTokenizer());
  CHECK(source->documents() == 7);
  CHECK(source->counts().skipped_binary == 1);
  folder.write("d/lines.json", kThree);  // records with the text key are data
  CHECK(open_source(folder.path("d"), ByteTokenizer())->documents() == 10);
}

TEST_CASE("binary files that are most of the bytes are refused, with what they may be") {
  const TempFolder folder;
  folder.write("d/train.bin", std::string(100, '\0'));
  folder.write("d/prepare.py", "import numpy");
  CHECK_THAT(refusal(folder.path("d")),
             ContainsSubstring("1 of 2 files are binary and have 100 of 112 bytes") &&
                 ContainsSubstring("train.bin: binary is not supported. May be ids of 2 bytes") &&
                 ContainsSubstring("nanoGPT"));
  CHECK_THAT(refusal(folder.path("d/train.bin")), ContainsSubstring("May be ids of 2 bytes"));
}

TEST_CASE("every format that is not read is refused by its name, in a folder and alone") {
  const TempFolder folder;
  const std::vector<std::pair<std::string, std::string>> inputs = {
      {"a.json", "[{\"text\": \"a\"}]"},
      {"b.csv", "text\nhello\n"},
      {"c.tsv", "text\thello\n"},
      {"f.npy", std::string("\x93NUMPY\1\0", 8)},
      {"g", std::string("\xfd"
                        "7zXZ\0",
                        6)},
      {"h", "BZh91AY&SY"},
      {"i.txt", std::string("\xff\xfeh\0", 4)},
      {"j.json", "{\n \"rows\": []}\n"},
      {"k.json", "{\"content\": \"the text\"}\n"},
      {"l.parquet", kPointer},
      {"m.jsonl.gz", kPointer},
  };
  for (const auto& [name, contents] : inputs) {
    CAPTURE(name);
    const std::string path = folder.write(name + "_/" + name, contents);
    folder.write(name + "_/README.md", std::string(1000, 'r'));
    for (const std::string& named : {path, folder.path(name + "_")})
      CHECK_THAT(refusal(named), ContainsSubstring(path + ": ") && ContainsSubstring(" is not supported"));
  }
  folder.write("lines.json", "{\"content\": \"a\"}\n{\"content\": \"b\"}\n");
  CHECK_THAT(data_error([&] { open_source(folder.path("lines.json"), ByteTokenizer()); }),
             ContainsSubstring("lines.json:1:1: the object has no field \"text\""));
  CHECK(documents(folder, folder.path("lines.json"), {.text_key = "content"}) ==
        Documents{{256, 'a', 257}, {256, 'b', 257}});
}

TEST_CASE("a pointer of Git LFS counts as the file that it stands for, beside text") {
  const TempFolder folder;
  folder.write("d/a.txt", std::string(2000, 't'));
  folder.write("d/picture.png", kPointer);
  CHECK(ids(folder.path("d")) == Names{"a.txt"});
  folder.write("d/a.txt", std::string(1000, 't'));
  CHECK(refusal(folder.path("d")) ==
        folder.path("d/picture.png") +
            ": a pointer of Git LFS is not supported. Fetch the file that it stands for: `git lfs pull`");
}

TEST_CASE("a compressed token file is refused with what to do") {
  const TempFolder folder;
  for (const Compressor& kind : compressors())
    CHECK_THAT(
        refusal(folder.write("a.tokens" + kind.suffix, kind.compress(rondo_bytes({{1}})))),
        ContainsSubstring("Rondo tokens is not supported here. Unpack it to " + folder.path("a.tokens")));
}

TEST_CASE("bad records stop, or are skipped and counted by reason, the same in training and tokenizing") {
  const TempFolder folder;
  const std::string path = folder.write(
      "a.jsonl",
      "{\"text\": \"a\"}\n{\"text\": null}\n{\"text\": \"cut\n{\"text\": \"x \\ud83d y\"}\n{\"id\": 1}\n"
      "{\"text\": 7}\n{\"text\": \"b\", \"score\": NaN}\n{\"text\": [1]}\n");
  CHECK_THAT(data_error([&] { open_source(path, ByteTokenizer()); }),
             ContainsSubstring("a.jsonl:2:10: the field \"text\" is not a string") &&
                 ContainsSubstring("training.on_bad_record=\"skip\", or --on-bad-record skip"));
  const TextOptions skip = {.on_bad_record = OnBadRecord::skip};
  CHECK(documents(folder, path, skip) == Documents{{256, 'a', 257}, {256, 'b', 257}});
  const auto source = open_source(path, ByteTokenizer(), skip);
  CHECK(source->counts().skipped_bad == 6);
  CHECK(source->counts().warnings ==
        Names{"bad records skipped: 1, half a surrogate pair; the first is " + path + ":4:19",
              "bad records skipped: 3, the field \"text\" is not a string; the first is " + path + ":2:10",
              "bad records skipped: 1, the object has no field \"text\"; the first is " + path + ":5:1",
              "bad records skipped: 1, the string does not end; the first is " + path + ":3:14"});
  // A record keeps its id, so the split and a resumed run see the same documents.
  CHECK(source->id_hash(1) == stable_hash("a.jsonl:7"));
}

TEST_CASE("documents that are too long are told before any document is tokenized") {
  const TempFolder folder;
  folder.write("d/a.txt", "short");
  const std::string path = folder.write("d/z.txt", "long");
  std::filesystem::resize_file(path, (std::uintmax_t{1} << 30) + 1);
  const std::string head(9000, 'x');  // no NUL where the format is examined
  std::ofstream(path, std::ios::in | std::ios::binary) << head;
  TokenizeOptions job;
  job.files = find_files(folder.path("d")).files;
  job.output = folder.path("out.tokens");
  bool reported = false;
  CHECK_THAT(
      data_error([&] { tokenize(job, PairTokenizer(), [&](const TokenizeProgress&) { reported = true; }); }),
      ContainsSubstring("z.txt: the document at byte 0 has 1073741825 bytes, and at most 1073741824") &&
          ContainsSubstring("documents that are too long: 1. Split them"));
  CHECK_FALSE(reported);
  CHECK_FALSE(std::filesystem::exists(folder.path(".out.tokens.parts")));
}

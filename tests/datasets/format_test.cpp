#include "datasets/documents/format.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/datasets/compressors.h"
#include "tests/datasets/token_bytes.h"

using namespace rondo;
using namespace std::string_view_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

FileFormat format_of(std::string_view head, std::string_view name = "x", bool whole = true) {
  return recognise_head(head, whole, name, "text");
}

const std::string kLines = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";

}  // namespace

TEST_CASE("JSON lines are known by their first line, under any name") {
  for (const char* name : {"a", "a.json", "a.txt", "a.ndjson", "a.jsonlines", "a.JSONL"})
    CHECK(format_of(kLines, name) == FileFormat::jsonl);
  CHECK(format_of("\xef\xbb\xbf\n \n" + kLines) == FileFormat::jsonl);
  CHECK(format_of("{\"text\": \"a\"}") == FileFormat::jsonl);
  CHECK(format_of("{\"body\": \"a\"}\n{\"body\": \"b\"}\n") == FileFormat::json_lines);
  CHECK(recognise_head("{\"body\": \"a\"}", true, "a", "body") == FileFormat::jsonl);
  CHECK(format_of("{\"text\": \"cut of\n" + kLines) == FileFormat::jsonl);
  CHECK(format_of("{\"text\": null}\n" + kLines) == FileFormat::jsonl);
  CHECK(format_of("{\"id\": 1, \"text\": \"" + std::string(100, 'x'), "a", false) == FileFormat::json_lines);
  CHECK(format_of("", "a.jsonl") == FileFormat::jsonl);
  CHECK(format_of("no JSON", "a.jsonl") == FileFormat::jsonl);
}

TEST_CASE("a .json file whose first record is cut is JSON lines with a bad record") {
  const char* text = "tail of a record\"}\n{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
  CHECK(format_of(text, "a.json") == FileFormat::jsonl);
  CHECK(format_of(text, "a.txt") == FileFormat::text);
  CHECK(format_of("prose\nand more of it\n", "a.json") == FileFormat::text);
}

TEST_CASE("one value of JSON is no lines, and text that begins like JSON is text") {
  CHECK(format_of("{\"splits\": {}}", "dataset_infos.json") == FileFormat::json);
  CHECK(format_of("{\n  \"a\": 1\n}\n", "state.json") == FileFormat::json);
  CHECK(format_of("[1, 2]", "a.json") == FileFormat::json);
  CHECK(format_of("[{\"text\": \"a\"}]", "a.jsonl") == FileFormat::json_array);
  CHECK(format_of(" [\n  {\n \"text\": \"a\"}]") == FileFormat::json_array);
  CHECK(format_of("{\n  \"a\": 1\n}\n", "a.txt") == FileFormat::text);
  CHECK(format_of("{ int x; }\n{ int y; }\n") == FileFormat::text);
  CHECK(format_of("[{]", "a") == FileFormat::text);
  CHECK(format_of("[[{\"a\": 1}]]", "a.txt") == FileFormat::text);
  CHECK(format_of("plain words", "a.json") == FileFormat::text);
  CHECK(format_of("PAR1 is a gene, BZh9 is no word, ustar and PK too") == FileFormat::text);
  CHECK(format_of("") == FileFormat::text);
}

TEST_CASE("objects of JSON that have several lines each are no text, unless the name says text") {
  CHECK(format_of("{\n  \"text\": \"a\"\n}\n") == FileFormat::json);
  CHECK(format_of("{\n  \"text\": \"a\"\n}\n{\n  \"text\": \"b\"\n}\n", "a.data") == FileFormat::json);
  CHECK(format_of("{\n  \"text\": \"a\",\n  \"b\": \"long", "a", false) == FileFormat::json);
  CHECK(format_of("{\n  int x;\n}\n") == FileFormat::text);
  CHECK(format_of("{\n  \"text\": \"a\"\n}\nand prose\n") == FileFormat::text);
  CHECK(format_of("[\n  {\n    \"text\": \"a\"\n  }\n]\n") == FileFormat::json_array);
}

TEST_CASE("binary formats are known by their first bytes, under any name") {
  CHECK(format_of("rondo corpus 1\n") == FileFormat::packed);
  CHECK(format_of("PAR1\x15\0\x15\x10"sv) == FileFormat::parquet);
  CHECK(format_of("", "a.PARQUET") == FileFormat::parquet);
  CHECK(format_of("ARROW1\0\0\xff\xff\xff\xff"sv) == FileFormat::arrow);
  CHECK(format_of("\xff\xff\xff\xff\x88\x02\0\0\x10\0"sv, "a.arrow") == FileFormat::arrow_stream);
  CHECK(format_of("\x93NUMPY\x01\0v"sv) == FileFormat::npy);
  CHECK(format_of("\xfd"
                  "7zXZ\0\0"sv) == FileFormat::xz);
  CHECK(format_of("BZh91AY&SY\x12\x34") == FileFormat::bzip2);
  CHECK(format_of("PK\x03\x04\x14\0"sv) == FileFormat::zip);
  CHECK(format_of(std::string(257, 'a') + "ustar" + std::string(250, '\0')) == FileFormat::tar);
  CHECK(format_of("\0\1\2"sv, "train.bin") == FileFormat::binary);
  CHECK(format_of("version https://git-lfs.github.com/spec/v1\n", "a.parquet") == FileFormat::git_lfs);
}

TEST_CASE("UTF-16 and UTF-32 are known by a byte order mark, or by ASCII characters") {
  CHECK(format_of("\xff\xfeh\0i\0"sv) == FileFormat::utf16);
  CHECK(format_of("\xfe\xff\0h\0i"sv, "a.jsonl") == FileFormat::utf16);
  CHECK(format_of("h\0i\0\n\0"sv) == FileFormat::utf16_le);
  CHECK(format_of("\0h\0i\0\n"sv) == FileFormat::utf16_be);
  CHECK(format_of("\xff\xfe\0\0h\0\0\0"sv) == FileFormat::utf32);
  CHECK(format_of("h\0\0\0i\0\0\0"sv) == FileFormat::utf32_le);
  CHECK(format_of("\0\0\0h\0\0\0i"sv, "a.txt") == FileFormat::utf32_be);
  CHECK(format_of("h\0\0\0\1\0\0\0"sv) == FileFormat::binary);
  CHECK(format_of("\x11\0\x12\0"sv) == FileFormat::binary);
}

TEST_CASE("CSV and TSV are known by their names alone") {
  CHECK(format_of("a,b\n", "a.csv") == FileFormat::csv);
  CHECK(format_of("a\tb\n", "A.TSV") == FileFormat::tsv);
  CHECK(format_of("a,b\n", "a.txt") == FileFormat::text);
  CHECK(format_of(kLines, "a.csv") == FileFormat::jsonl);
}

TEST_CASE("a compressed file has the format of its content") {
  const TempFolder folder;
  for (const Compressor& kind : compressors()) {
    const Recognised lines =
        recognise(folder.write("c4-train.00000-of-01024.json" + kind.suffix, kind.compress(kLines)), "text");
    CHECK(lines.format == FileFormat::jsonl);
    CHECK(lines.compressed);
    CHECK(recognise(folder.write("a", kind.compress("a,b\n")), "text").format == FileFormat::text);
    CHECK(recognise(folder.write("a.csv" + kind.suffix, kind.compress("a,b\n")), "text").format ==
          FileFormat::csv);
    CHECK(recognise(folder.write("b", kind.compress(rondo_bytes({{1}}))), "text").format ==
          FileFormat::rondo_tokens);
  }
}

TEST_CASE("a file that is compressed twice is refused with what to do") {
  const TempFolder folder;
  for (const Compressor& kind : compressors()) {
    const std::string path = folder.write("a.jsonl" + kind.suffix, kind.compress(kind.compress(kLines)));
    const Recognised file = recognise(path, "text");
    CHECK(file.format == FileFormat::compressed);
    CHECK_THAT(
        data_error([&] { refuse(path, file, "text"); }),
        ContainsSubstring(path + ": a file that is compressed twice is not supported here. Unpack it to " +
                          folder.path("a.jsonl") + " first"));
    CHECK(recognise(folder.write("a.jsonl", kind.compress(kLines)), "text").format == FileFormat::jsonl);
  }
}

TEST_CASE("ids without a header are known by their companions, llm.c's and Rondo's by their content") {
  const TempFolder folder;
  const Documents documents = {{1, 2, 3}, {4, 5}};
  const auto format = [&](const std::string& path) { return recognise(path, "text").format; };
  const std::string bin = folder.write("m.bin", bytes_of_ids<std::uint16_t>(flat(documents)));
  CHECK(format(bin) == FileFormat::binary);
  const std::string idx = folder.write("m.idx", megatron_index(documents, 8, 2));
  CHECK(format(bin) == FileFormat::megatron);
  CHECK(format(idx) == FileFormat::megatron);
  CHECK(format(folder.write("ids", llmc_bytes(flat(documents)))) == FileFormat::llmc);
  CHECK(format(folder.write("other", rondo_bytes(documents))) == FileFormat::rondo_tokens);
  CHECK(format(folder.write("d.ds.index", ends_of(documents))) == FileFormat::binary);
  CHECK(format(folder.write("d.ds", bytes_of_ids<std::uint16_t>(flat(documents)))) == FileFormat::datatrove);
  CHECK(format(folder.path("d.ds.index")) == FileFormat::datatrove);
}

TEST_CASE("JSON lines longer than 1 MiB are known by their beginning") {
  const TempFolder folder;
  const std::string line = "{\"id\": 1, \"text\": \"" + std::string(3 << 20, 'x') + "\"}\n";
  CHECK(recognise(folder.write("a.json", line), "text").format == FileFormat::json_lines);
}

TEST_CASE("a refusal names file, format and the command that converts it") {
  const auto refusal = [](const std::string& path, FileFormat format, bool compressed = false) {
    return data_error([&] { refuse(path, {format, compressed}, "text"); });
  };
  CHECK(refusal("d/a.json", FileFormat::json_array) ==
        "d/a.json: JSON array is not supported. Convert it: `jq -c '.[]' 'd/a.json' > 'd/a.jsonl'`, and move "
        "it "
        "out of the data path");
  CHECK_THAT(refusal("d/a.json.gz", FileFormat::json_array, true),
             ContainsSubstring("JSON array is not supported here. Unpack it to d/a.json first. Convert it: "
                               "`jq -c '.[]' 'd/a.json' > 'd/a.jsonl'`"));
  CHECK_THAT(refusal("a.csv", FileFormat::csv), ContainsSubstring("csv.DictReader(open('a.csv'"));
  CHECK_THAT(
      refusal("a.json", FileFormat::json),
      ContainsSubstring("an object like {\"text\": \"...\"}; training.text_key, or --text-key, names"));
  CHECK_THAT(refusal("d/a.csv", FileFormat::utf16), ContainsSubstring("'d/a.csv' > 'd/a.utf8.csv'`"));
  CHECK_THAT(refusal("d.d/a", FileFormat::utf16), ContainsSubstring("'d.d/a' > 'd.d/a.utf8.txt'`"));
  CHECK(refusal("a.tar.gz", FileFormat::tar, true) ==
        "a.tar.gz: tar archive is not supported. Unpack it: `tar -xf 'a.tar.gz'`, and name what it holds");
  CHECK_THAT(refusal("a.xz", FileFormat::xz), ContainsSubstring("`xz -dk 'a.xz'`"));
  CHECK_THAT(refusal("train.bin", FileFormat::binary), ContainsSubstring("nanoGPT"));
  CHECK_THAT(refusal("part.NPY", FileFormat::binary), ContainsSubstring("OLMo"));
  CHECK(refusal("a.png", FileFormat::binary) ==
        "a.png: binary is not supported. Text has no NUL byte in its first 8 KiB");
  for (int i = 0; i <= static_cast<int>(FileFormat::binary); ++i) {
    const auto format = static_cast<FileFormat>(i);
    CHECK(name_of(format) != std::string());
    if (!is_read(format)) CHECK_THAT(refusal("a b", format), ContainsSubstring(name_of(format)));
  }
}

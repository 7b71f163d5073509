#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>

#include "datasets/loader.h"
#include "tests/datasets/token_bytes.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

const Documents kDocuments = {{256, 'a', 'b', 257}, {}, {256, 257}, {256, 'x', 'y', 'z', 257}};

using Open = std::unique_ptr<TokenFile> (*)(const SourceFile&, IdLimit);

std::unique_ptr<TokenFile> open(Open open_format, const std::string& path, std::int64_t vocab = 258) {
  return open_format({path, "id"}, {vocab, "byte"});
}

std::string open_error(Open open_format, const std::string& path) {
  return data_error([&] { read_all(*open(open_format, path)); });
}

// A small valid data set: its files by suffix, and the function that opens the first.
struct Format {
  const char* name;
  Open open_format;
  std::vector<std::pair<std::string, std::string>> files;  // the first is opened
};

std::vector<Format> formats() {
  const TokenIds ids = flat(kDocuments);
  return {
      {"rondo", open_rondo_tokens, {{".tokens", rondo_bytes(kDocuments)}}},
      {"rondo, 4 bytes", open_rondo_tokens, {{".tokens", rondo_bytes(kDocuments, "byte", 100'000)}}},
      {"megatron, u16",
       open_megatron,
       {{".bin", bytes_of_ids<std::uint16_t>(ids)}, {".idx", megatron_index(kDocuments, 8, 2)}}},
      {"megatron, i32",
       open_megatron,
       {{".bin", bytes_of_ids<std::int32_t>(ids)}, {".idx", megatron_index(kDocuments, 4, 4)}}},
      {"megatron, i64",
       open_megatron,
       {{".bin", bytes_of_ids<std::int64_t>(ids)}, {".idx", megatron_index(kDocuments, 5, 8)}}},
      {"datatrove, u16",
       open_datatrove,
       {{".ds", bytes_of_ids<std::uint16_t>(ids)},
        {".ds.index", ends_of(kDocuments)},
        {".ds.metadata", "gpt2|2\n11\n11\n"}}},
      {"datatrove, u32",
       open_datatrove,
       {{".ds", bytes_of_ids<std::uint32_t>(ids)}, {".ds.index", ends_of(kDocuments)}}},
  };
}

std::string write(const TempFolder& folder, const Format& format) {
  for (const auto& [suffix, bytes] : format.files) folder.write("x" + suffix, bytes);
  return folder.path("x" + format.files[0].first);
}

}  // namespace

TEST_CASE("each format has the documents of its bytes, whole and in every part") {
  for (const Format& format : formats()) {
    INFO(format.name);
    const TempFolder folder;
    const auto file = open(format.open_format, write(folder, format));
    CHECK(read_all(*file) == kDocuments);
    CHECK(file->total_tokens() == 11);
    for (std::int64_t begin = 0; begin <= 5; ++begin)
      for (std::int64_t end = begin; end <= 5; ++end) {
        TokenIds part(static_cast<std::size_t>(end - begin));
        file->read(3, begin, end, part.data());
        REQUIRE(part == TokenIds(kDocuments[3].begin() + begin, kDocuments[3].begin() + end));
      }
    file->verify();
    const IdRange range = file->id_range(1000);
    CHECK(range.least == 'a');
    CHECK(range.most == 257);
  }
}

TEST_CASE("documents of Megatron-LM may have several sequences, anywhere in the file") {
  const TempFolder folder;
  folder.write("x.bin", bytes_of_ids<std::uint16_t>({1, 2, 3, 4, 5, 6}));
  std::string index = std::string("MMIDIDX\0\0", 9) + bytes_of_value(std::uint64_t{1}) +
                      bytes_of_value(std::uint8_t{8}) + bytes_of_value(std::uint64_t{3}) +
                      bytes_of_value(std::uint64_t{3});
  for (const std::int32_t length : {2, 1, 3}) index += bytes_of_value(length);
  for (const std::int64_t offset : {8, 0, 2}) index += bytes_of_value(offset);
  for (const std::int64_t entry : {0, 2, 3}) index += bytes_of_value(entry);
  folder.write("x.idx", index + std::string(3, '\1'));  // with modes
  const auto file = open(open_megatron, folder.path("x.bin"));
  CHECK(read_all(*file) == Documents{{5, 6, 1}, {2, 3, 4}});
  TokenIds part(2);
  file->read(0, 1, 3, part.data());
  CHECK(part == TokenIds{6, 1});
}

TEST_CASE("documents of llm.c begin at its begin-of-text or end-of-text token") {
  const TempFolder folder;
  const auto gpt2 =
      open_llmc({folder.write("g.bin", llmc_bytes({7, 50256, 1, 2, 50256, 50256, 3})), "g"}, {});
  CHECK(read_all(*gpt2) == Documents{{7}, {50256, 1, 2}, {50256}, {50256, 3}});
  const auto llama = open_llmc({folder.write("l.bin", llmc_bytes({128000, 1, 128000}, true)), "l"}, {});
  CHECK(read_all(*llama) == Documents{{128000, 1}, {128000}});
  CHECK(read_all(*open_llmc({folder.write("e.bin", llmc_bytes({})), "e"}, {})).empty());
}

TEST_CASE("an id that the tokenizer does not have is an error with file, document and token") {
  for (const Format& format : formats()) {
    const TempFolder folder;
    const std::string path = write(folder, format);
    CHECK(data_error([&] { read_all(*open(format.open_format, path, 257)); }) ==
          path +
              ": document 0: token 3 is 257, but the byte tokenizer has ids below 257. Set "
              "training.tokenizer to the "
              "tokenizer of the file");
  }
  const TempFolder folder;
  folder.write("x.bin", bytes_of_ids<std::int32_t>({1, -2}));
  folder.write("x.idx", megatron_index({{1, -2}}, 4, 4));
  CHECK_THAT(open_error(open_megatron, folder.path("x.bin")),
             ContainsSubstring("document 0: token 1 is -2, but ids are not negative"));
}

TEST_CASE("a token file with inconsistent sizes is refused with the reason") {
  const TempFolder folder;
  const auto rondo = [&](const std::string& bytes) {
    return open_error(open_rondo_tokens, folder.write("x.tokens", bytes));
  };
  const std::string good = rondo_bytes(kDocuments);
  CHECK_THAT(rondo("text"), ContainsSubstring("x.tokens: a token file begins with \"rondotok\""));
  CHECK_THAT(rondo(good + "x"), ContainsSubstring("do not give a file of"));
  CHECK_THAT(rondo(good.substr(0, good.size() - 8)), ContainsSubstring("it was truncated or extended"));
  const auto with = [&](std::size_t at, const std::string& value) {
    return resealed(std::string(good).replace(at, value.size(), value));
  };
  CHECK_THAT(rondo(std::string(good).replace(20, 1, "\1")), ContainsSubstring("the header is damaged"));
  CHECK_THAT(rondo(with(8, bytes_of_value(std::uint32_t{2}))),
             ContainsSubstring("version 2 of the format is not supported"));
  CHECK_THAT(rondo(with(12, bytes_of_value(std::uint32_t{8}))),
             ContainsSubstring("a token has 2 or 4 bytes, not 8"));
  for (const std::uint64_t count : {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 60,
                                    std::uint64_t{5}, std::uint64_t{3}})
    CHECK_THAT(rondo(with(16, bytes_of_value(count))), ContainsSubstring("do not give a file of"));
  for (const std::uint64_t count : {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{7}})
    CHECK_THAT(rondo(with(24, bytes_of_value(count))), ContainsSubstring("do not give a file of"));

  folder.write("m.bin", bytes_of_ids<std::uint16_t>(flat(kDocuments)));
  const auto megatron = [&](const std::string& index) {
    folder.write("m.idx", index);
    return open_error(open_megatron, folder.path("m.bin"));
  };
  const std::string index = megatron_index(kDocuments, 8, 2);
  CHECK_THAT(megatron(index.substr(0, 20)), ContainsSubstring("does not begin with MMIDIDX"));
  CHECK_THAT(megatron(std::string(index).replace(17, 1, "\6")),
             ContainsSubstring("ids of type 6 are not supported"));
  CHECK_THAT(megatron(std::string(index).replace(18, 8, 8, '\xff')),
             ContainsSubstring("do not give an .idx"));
  CHECK_THAT(megatron(std::string(index).replace(34, 4, 4, '\xff')),
             ContainsSubstring("sequence 0 of -1 tokens"));
  CHECK_THAT(megatron(megatron_index({}, 8, 2)),
             ContainsSubstring("its .idx has no sequence, but its .bin has 22 bytes"));
  CHECK_THAT(megatron(std::string(index).replace(50, 8, bytes_of_value(std::int64_t{20}))),
             ContainsSubstring("sequence 0 of 4 tokens at byte 20 is not within the 22 bytes"));

  folder.write("d.ds", bytes_of_ids<std::uint16_t>(flat(kDocuments)));
  const auto datatrove = [&](const std::string& ends, const std::string& metadata = "") {
    folder.write("d.ds.index", ends);
    folder.write("d.ds.metadata", metadata);
    return open_error(open_datatrove, folder.path("d.ds"));
  };
  CHECK_THAT(datatrove("123"), ContainsSubstring("3 bytes, not a multiple of 8"));
  CHECK_THAT(datatrove(ends_of({{1, 2, 3}})), ContainsSubstring("which is not 2 or 4 bytes per token"));
  CHECK_THAT(datatrove(ends_of(kDocuments), "gpt2|4\n"), ContainsSubstring("says 4 bytes a token"));
  CHECK_THAT(datatrove(ends_of(kDocuments), "gpt2\n12\n"),
             ContainsSubstring("says 12 tokens, but its .index 11"));
  CHECK_THAT(datatrove(bytes_of_value(std::uint64_t{12}) + bytes_of_value(std::uint64_t{11})),
             ContainsSubstring("document 0: its tokens, 0 to 12, are not within the 11 of the file"));
  std::filesystem::remove(folder.path("d.ds.metadata"));
  REQUIRE(mkfifo(folder.path("d.ds.metadata").c_str(), 0600) == 0);
  CHECK(open_error(open_datatrove, folder.path("d.ds")) ==
        folder.path("d.ds.metadata") + ": not a regular file");
  std::filesystem::remove(folder.path("d.ds.metadata"));
  std::filesystem::remove(folder.path("d.ds.index"));
  CHECK_THAT(open_error(open_datatrove, folder.path("d.ds")),
             ContainsSubstring("cannot open " + folder.path("d.ds.index") + ": No such file or directory"));

  const auto llmc = [&](const std::string& bytes) {
    return open_error(open_llmc, folder.write("l.bin", bytes));
  };
  folder.write("l.bin", llmc_bytes({50256, 1, 50256, 2, 300}));
  CHECK_THAT(data_error([&] { open(open_llmc, folder.path("l.bin"), 50'257)->documents(); }),
             ContainsSubstring("no error"));
  CHECK_THAT(
      data_error([&] { open(open_llmc, folder.path("l.bin"), 299); }),
      ContainsSubstring("l.bin: document 0: token 0 is 50256, but the byte tokenizer has ids below 299"));
  CHECK_THAT(llmc(llmc_bytes({1, 2}) + "x"),
             ContainsSubstring("says 2 tokens of 2 bytes, but 5 bytes follow"));
  CHECK_THAT(llmc(llmc_bytes({}).replace(8, 4, 4, '\xff')), ContainsSubstring("says -1 tokens"));
  CHECK_THAT(llmc(llmc_bytes({}).replace(4, 1, "\7")), ContainsSubstring("magic 20240520 and version 7"));
}

TEST_CASE("every bit flip and truncation of Rondo's token file is detected") {
  const TempFolder folder;
  const auto damage = [&](const std::string& bytes) {
    return data_error([&] { open(open_rondo_tokens, folder.write("x.tokens", bytes))->verify(); });
  };
  for (const Documents& documents : {kDocuments, Documents{{1, 2, 3}}, Documents{}}) {
    const std::string good = rondo_bytes(documents);
    REQUIRE(damage(good) == "no error");
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      CAPTURE(bit);
      REQUIRE(damage(bad) != "no error");
    }
    for (std::size_t length = 0; length < good.size(); ++length)
      REQUIRE(damage(good.substr(0, length)) != "no error");
  }
}

TEST_CASE("randomly damaged files of any format are read or refused") {
  std::mt19937 random(1);
  const TempFolder folder;
  std::vector<Format> all = formats();
  all.push_back({"llm.c", open_llmc, {{".bin", llmc_bytes({50256, 1, 2, 50256, 3})}}});
  all.push_back({"llm.c", open_llmc, {{".bin", llmc_bytes({128000, 1, 2}, true)}}});
  for (const Format& format : all) {
    INFO(format.name);
    for (int round = 0; round < 1500; ++round) {
      Format bad = format;
      std::string& bytes = bad.files[random() % bad.files.size()].second;
      for (auto changes = 1 + random() % 4; changes > 0 && !bytes.empty(); --changes) {
        const std::size_t at =
            random() % std::min<std::size_t>(bytes.size(), random() % 2 == 0 ? 64 : bytes.size());
        const std::size_t width = std::min<std::size_t>(bytes.size() - at, std::size_t{1} << random() % 4);
        switch (random() % 5) {
          case 0:
            bytes.resize(at);
            break;
          case 1:
            bytes.insert(at, std::string(width, static_cast<char>(random())));
            break;
          case 2:
            bytes.replace(at, width, width, '\xff');
            break;
          case 3:
            bytes.replace(at, width, width, '\0');
            break;
          default:
            bytes[at] = static_cast<char>(random());
        }
      }
      if (bad.open_format == open_rondo_tokens && bytes.size() >= 256 && random() % 2 == 0)
        bytes = resealed(bytes);
      const std::string message = data_error([&] {
        const auto file = open(bad.open_format, write(folder, bad));
        file->id_range(1000);
        read_all(*file);
        file->verify();
      });
      CAPTURE(round, message);
      REQUIRE(message.find("wrong exit code") == std::string::npos);
    }
  }
}

TEST_CASE("a token file that shrank after it was opened is an error that names it") {
  for (const Format& format : formats()) {
    const TempFolder folder;
    const std::string path = write(folder, format);
    const auto file = open(format.open_format, path);
    std::filesystem::resize_file(path, 4);
    CHECK_THAT(data_error([&] { read_all(*file); }), ContainsSubstring(path + ": changed while in use"));
  }
}

TEST_CASE("a token file of a hundred gigabytes opens without being read") {
  const TempFolder folder;
  const std::string path = folder.path("big.tokens");
  // A sparse file of 48 G tokens in 100 M documents: zeros except the header.
  std::string header = rondo_bytes({});
  const std::uint64_t tokens = std::uint64_t{48} << 30, documents = 100'000'000;
  header.replace(16, 16, bytes_of_value(documents) + bytes_of_value(tokens));
  folder.write("big.tokens", resealed(header));
  std::error_code full;
  std::filesystem::resize_file(path, 256 + 2 * tokens + 16 * documents, full);
  if (full) SKIP("the file system has no sparse files of that size");
  const auto file = open(open_rondo_tokens, path);
  CHECK(file->total_tokens() == static_cast<std::int64_t>(tokens));
  CHECK(file->tokens(99'999'999) == 0);
}

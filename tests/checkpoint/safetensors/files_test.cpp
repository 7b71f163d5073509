#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>
#include <filesystem>
#include <random>

#include "checkpoint/safetensors/reader.h"
#include "checkpoint/safetensors/writer.h"
#include "tests/checkpoint/safetensors/texts.h"
#include "tests/datasets/temp_folder.h"

namespace rondo::safetensors {
namespace {

using Catch::Matchers::ContainsSubstring;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// Limits the size of files that this process may write, like a full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit small{bytes, old_limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_limit_{};
  void (*old_handler_)(int);
};

}  // namespace

TEST_CASE("pieces written in any order are read back") {
  const TempFolder folder;
  const std::string path = folder.path("w.safetensors");
  Writer writer(path, tensors_of_all_kinds(), {{"format", "pt"}});

  std::mt19937_64 random(1);
  struct Piece {
    const TensorInfo* tensor;
    std::size_t begin, end;
  };
  std::vector<Piece> pieces;
  std::vector<std::string> expected;
  for (const TensorInfo& info : writer.header().tensors) {
    std::string data;
    while (data.size() < info.bytes()) data += static_cast<char>(random());
    for (std::size_t begin = 0; begin < data.size();) {
      const std::size_t end = std::min<std::size_t>(data.size(), begin + 1 + random() % 5);
      pieces.push_back({&info, begin, end});
      begin = end;
    }
    expected.push_back(data);
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  for (const Piece& piece : pieces) {
    const std::string& data =
        expected[static_cast<std::size_t>(piece.tensor - writer.header().tensors.data())];
    writer.write(piece.tensor->name, piece.begin,
                 as_span(data).subspan(piece.begin, piece.end - piece.begin));
  }
  CHECK_FALSE(std::filesystem::exists(path));
  writer.finish();

  File opened(path);
  const File file = std::move(opened);
  CHECK(file.metadata() == Metadata{{"format", "pt"}});
  REQUIRE(file.tensors() == writer.header().tensors);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const TensorInfo* info = file.find(file.tensors()[i].name);
    REQUIRE(info == &file.tensors()[i]);
    CHECK(text_of(file.bytes(*info)) == expected[i]);
    if (info->elements() < 2) continue;
    const std::size_t size = dtype_bytes(info->dtype);
    CHECK(text_of(file.bytes(*info, 1, 3)) == expected[i].substr(size, 2 * size));
    CHECK(file.bytes(*info, 2, 2).empty());
  }
  CHECK(file.find("nothing") == nullptr);
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a file that shrank after it was opened is an error that names it") {
  const TempFolder folder;
  Writer writer(folder.path("w"), {tensor("t", Dtype::i16, {2})});
  writer.write("t", 0, as_span("1234"));
  writer.finish();
  const File file(folder.path("w"));
  std::filesystem::resize_file(folder.path("w"), 70);
  CHECK_THAT(error_of([&] { file.bytes(file.tensors()[0]); }),
             ContainsSubstring(folder.path("w") + ": changed while in use"));
}

TEST_CASE("a range outside of a tensor is a bug of the caller") {
  const TempFolder folder;
  Writer writer(folder.path("w"), {tensor("t", Dtype::i16, {2})});
  writer.write("t", 0, as_span("1234"));
  writer.finish();
  const File file(folder.path("w"));
  CHECK_THAT(error_of([&] { file.bytes(file.tensors()[0], 1, 3); }, ExitCode::internal),
             ContainsSubstring("a range outside of \"t\""));
}

TEST_CASE("every byte is written once: gaps, repetitions and wrong offsets are bugs of the caller") {
  const TempFolder folder;
  Writer writer(folder.path("w"), {tensor("t", Dtype::u8, {8}), tensor("e", Dtype::u8, {0})});
  const auto problem = [&](auto action) { return error_of(action, ExitCode::internal); };
  writer.write("t", 2, as_span("234"));
  CHECK_THAT(problem([&] { writer.write("t", 4, as_span("4")); }),
             ContainsSubstring("\"t\" are written twice"));
  CHECK_THAT(problem([&] { writer.write("t", 1, as_span("12")); }), ContainsSubstring("are written twice"));
  CHECK_THAT(problem([&] { writer.write("t", 0, as_span("0123456")); }),
             ContainsSubstring("are written twice"));
  CHECK_THAT(problem([&] { writer.write("t", 7, as_span("78")); }), ContainsSubstring("bytes outside of"));
  CHECK_THAT(problem([&] { writer.write("t", ~std::uint64_t{0}, as_span("7")); }),
             ContainsSubstring("outside"));
  CHECK_THAT(problem([&] { writer.write("x", 0, as_span("0")); }), ContainsSubstring("no tensor \"x\""));
  writer.write("t", 5, as_span("567"));
  CHECK_THAT(problem([&] { writer.finish(); }), ContainsSubstring("bytes of the tensor \"t\" are missing"));
  writer.write("t", 0, as_span("01"));
  writer.finish();
  CHECK_THAT(problem([&] { writer.finish(); }), ContainsSubstring("is finished"));
  const File file(folder.path("w"));
  CHECK(text_of(file.bytes(*file.find("t"))) == "01234567");
}

TEST_CASE("two tensors of one name cannot be written") {
  const TempFolder folder;
  for (const char* name : {"t", "__metadata__"})
    CHECK_THAT(error_of(
                   [&] {
                     Writer(folder.path("w"), {tensor("t", Dtype::u8, {}), tensor(name, Dtype::u8, {})});
                   },
                   ExitCode::internal),
               ContainsSubstring("is taken"));
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("a writer that does not finish leaves the old file and nothing else") {
  const TempFolder folder;
  const std::string path = folder.write("w", "old");
  {
    Writer first(path, {tensor("t", Dtype::u8, {2})});
    Writer second(path, {tensor("t", Dtype::u8, {2})});
    first.write("t", 0, as_span("1"));
    CHECK(files_in(folder.path()) == 3);
  }
  CHECK(files_in(folder.path()) == 1);
  CHECK(contents_of(path) == "old");
}

TEST_CASE("a full disk is reported before the first byte is written") {
  const TempFolder folder;
  {
    const SmallDisk disk(1 << 16);
    const std::string problem = error_of(
        [&] { Writer(folder.path("w"), {tensor("t", Dtype::f32, {1 << 20})}); }, ExitCode::resources);
    CHECK_THAT(problem, ContainsSubstring("cannot reserve space for " + folder.path("w")));
    CHECK_THAT(problem, ContainsSubstring("free space, then give the same command again"));
  }
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("a path that cannot be opened or is not a file is refused by name") {
  const TempFolder folder;
  CHECK_THAT(error_of([&] { File(folder.path("none")); }),
             ContainsSubstring("cannot open " + folder.path("none") + ": No such file or directory"));
  CHECK_THAT(error_of([&] { File(folder.path()); }),
             ContainsSubstring(": not a file; name a .safetensors file"));
  REQUIRE(mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { File(folder.path("pipe")); }), ContainsSubstring("not a file"));
  CHECK_THAT(error_of([&] { File(folder.write("empty", "")); }), ContainsSubstring("it has 0 bytes"));
  CHECK_THAT(error_of([&] { Writer(folder.path("no/w"), {}); }),
             ContainsSubstring("cannot write " + folder.path("no/w") + ": No such file"));
}

}  // namespace rondo::safetensors

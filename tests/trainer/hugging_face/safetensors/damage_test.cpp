// Damaged files end in an error or are valid; they never crash, and the official package agrees. What this
// checks grows under the asan preset.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "apps/run_program.h"
#include "tests/trainer/data/temp_folder.h"
#include "tests/trainer/hugging_face/safetensors/texts.h"
#include "trainer/hugging_face/safetensors/format.h"

namespace rondo::safetensors {
namespace {

using Json = nlohmann::json;

std::string small_file() {
  const Header header = lay_out({tensor("a", Dtype::f32, {2, 3}), tensor("b.c", Dtype::bf16, {5}),
                                 tensor("d", Dtype::u8, {0, 7}), tensor("\xc3\xa9", Dtype::i64, {})},
                                {{"format", "pt"}, {"k", "v"}});
  std::string file = header_bytes(header);
  for (std::uint64_t i = 0; i < header.data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

// "" where the file is valid, and then every tensor lies inside of it; the problem otherwise.
std::string problem_of(const std::string& file) {
  Header header;
  const std::string problem = error_of([&] { header = parse_header(as_span(file), "w"); });
  if (problem != "no error") {
    REQUIRE(problem.rfind("w: not a valid safetensors file: ", 0) == 0);
    return problem;
  }
  REQUIRE(header.data_begin + header.data_bytes == file.size());
  std::uint64_t covered = 0;
  for (const TensorInfo& info : header.tensors) {
    REQUIRE(info.begin == covered);
    covered = info.end;
    std::uint64_t bytes = dtype_bytes(info.dtype);
    for (const std::int64_t size : info.shape) bytes *= static_cast<std::uint64_t>(size);
    REQUIRE(info.bytes() == bytes);
  }
  REQUIRE(covered == header.data_bytes);
  return "";
}

// Changes a file in a way that JSON parsers and offset checks find hard.
std::string damaged(std::string file, std::mt19937& random) {
  static const std::array<std::string, 22> bits = {
      "\"", "{",  "}",  "[",    "]",    ",",       ":",  "0",  "9",  "-1",         "1e3",
      "\\", "\n", "  ", "null", "true", "\\u0000", "[]", "{}", ".0", "4294967296", "18446744073709551615"};
  const std::size_t header_end = file.find("   ") == file.npos ? file.size() : file.find("   ");
  const auto place = [&] { return 8 + random() % (header_end - 8); };
  for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
    const std::size_t at = std::min<std::size_t>(place(), file.size());
    const std::size_t length = random() % 12;
    switch (random() % 6) {
      case 0:
        file[std::min<std::size_t>(random() % file.size(), file.size() - 1)] ^=
            static_cast<char>(1 << random() % 8);
        break;
      case 1:
        file.insert(at, bits[random() % bits.size()]);
        break;
      case 2:
        file.erase(at, length);
        break;
      case 3:
        file.insert(at, file.substr(std::min<std::size_t>(place(), file.size()), length));
        break;
      case 4:
        if (at < file.size()) file[at] = static_cast<char>('0' + random() % 10);
        break;
      default:
        file.replace(at, std::min(length, file.size() - at), bits[random() % bits.size()]);
        break;
    }
  }
  // Most of the time with the right length of the header, or nothing behind the length would be looked at.
  if (random() % 8 != 0 && file.size() > 60) {
    const std::uint64_t length = file.size() - 8 - 42;
    for (std::size_t byte = 0; byte < 8; ++byte) file[byte] = static_cast<char>(length >> (8 * byte) & 0xff);
  }
  return file;
}

// Reads the files and what we make of them, and prints where the package does not agree.
constexpr const char* kCompare = R"(
import json, sys
import safetensors
taken = 0
allowed = ("does not begin with '{'", 'twice', 'unknown key', '"__metadata__" must be an object and is null')
for line in open(sys.argv[1]):
    ours = json.loads(line)
    try:
        theirs = {name: [t['dtype'], t['shape'], bytes(t['data']).hex()]
                  for name, t in safetensors.deserialize(bytes.fromhex(ours['file']))}
    except Exception as e:
        theirs = None
    if ours['problem'] == '':
        assert theirs == ours['tensors'], (line, theirs)
        taken += 1
    elif theirs is not None:
        assert any(words in ours['problem'] for words in allowed), (line, theirs)
print('agreed', taken)
)";

std::string hex(const std::string& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Json outcome_of(const std::string& file) {
  const std::string problem = problem_of(file);
  Json line = {{"file", hex(file)}, {"problem", problem}};
  if (!problem.empty()) return line;
  const Header header = parse_header(as_span(file), "w");
  line["tensors"] = Json::object();
  for (const TensorInfo& info : header.tensors)
    line["tensors"][info.name] = {dtype_name(info.dtype), info.shape,
                                  hex(file.substr(header.data_begin + info.begin, info.bytes()))};
  return line;
}

}  // namespace

TEST_CASE("every truncation of a file is refused") {
  const std::string file = small_file();
  REQUIRE(problem_of(file).empty());
  for (std::size_t size = 0; size < file.size(); ++size) {
    INFO(size);
    REQUIRE_FALSE(problem_of(file.substr(0, size)).empty());
  }
  CHECK_FALSE(problem_of(file + "x").empty());
}

TEST_CASE("10,000 random bit flips and 10,000 mangled headers are refused or valid") {
  std::mt19937 random(7);
  const std::string file = small_file();
  const std::size_t header_bytes = file.size() - 42;
  int refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string flipped = file;
    for (std::size_t flips = 1 + random() % 3; flips > 0; --flips)
      flipped[random() % header_bytes] ^= static_cast<char>(1 << random() % 8);
    refused += !problem_of(flipped).empty();
  }
  CHECK(refused > 5'000);
  refused = 0;
  for (int i = 0; i < 10'000; ++i) refused += !problem_of(damaged(file, random)).empty();
  CHECK(refused > 5'000);
}

TEST_CASE("of damaged files, what we take the official package takes, with the same tensors") {
  const std::string python = std::string(RONDO_SOURCE_DIR) + "/scripts/oracle_python.sh";
  if (run_program({python, "-c", "import safetensors"}, 60'000).exit_code != 0)
    SKIP("no Python with safetensors; scripts/setup.sh --oracles installs it");
  const TempFolder folder;
  std::mt19937 random(11);
  const std::string file = small_file();
  int taken = 0;
  {
    std::ofstream out(folder.path("files"));
    for (int i = 0; i < 4'000; ++i) {
      const Json outcome = outcome_of(damaged(file, random));
      taken += outcome["problem"] == "";
      out << outcome.dump() << '\n';
    }
  }
  const ProgramResult result = run_program({python, "-c", kCompare, folder.path("files")}, 60'000);
  CAPTURE(result.output);
  CHECK(result.exit_code == 0);
  CHECK(result.output == "agreed " + std::to_string(taken) + "\n");
}

}  // namespace rondo::safetensors

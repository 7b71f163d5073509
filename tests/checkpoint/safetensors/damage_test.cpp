// Tests that damaged files are errors or valid, never crash, and that the official package agrees.
// The asan preset checks more.
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/rondo/run_program.h"
#include "checkpoint/safetensors/format.h"
#include "tests/attack/fuzz/mutate.h"
#include "tests/checkpoint/safetensors/texts.h"
#include "tests/datasets/temp_folder.h"

namespace rondo::safetensors {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kDataBytes = 42;  // of the small file

std::string small_file() {
  const Header header = lay_out({tensor("a", Dtype::f32, {2, 3}), tensor("b.c", Dtype::bf16, {5}),
                                 tensor("d", Dtype::u8, {0, 7}), tensor("\xc3\xa9", Dtype::i64, {})},
                                {{"format", "pt"}, {"k", "v"}});
  std::string file = header_bytes(header);
  for (std::uint64_t i = 0; i < header.data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

// Returns the problem of the file, or "" if it is valid and every tensor is inside it.
std::string problem_of(const std::string& file) {
  Header header;
  const std::string problem = error_of([&] { header = parse_header(as_span(file), "w"); });
  if (problem != "no error") {
    const bool is_unread = problem.find("\" is not read in this version; ") != problem.npos;
    REQUIRE((is_unread || problem.rfind("w: not a valid safetensors file: ", 0) == 0));
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

// Returns a file with a mutated header. Its length is mostly correct, otherwise nothing after the
// length would be parsed.
std::string damaged(const std::string& file, attack::Random& random) {
  const std::string header = file.substr(8, file.size() - 8 - kDataBytes);
  const std::string mutated =
      random() % 2 == 0 ? attack::mutate(header, "", random) : attack::mutate_json(header, "", random);
  std::string damaged = file_of(mutated, file.substr(file.size() - kDataBytes));
  if (random() % 8 == 0) damaged.replace(0, 8, file.substr(0, 8));
  return damaged;
}

// Reads the files and our results, and prints where the package does not agree.
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
  attack::Random random(7);
  const std::string file = small_file();
  const std::size_t header_bytes = file.size() - kDataBytes;
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

TEST_CASE("the official package accepts the damaged files that we accept, with the same tensors") {
  const std::string python = std::string(RONDO_SOURCE_DIR) + "/scripts/oracle_python.sh";
  if (run_program({python, "-c", "import safetensors"}, 60'000).exit_code != 0)
    SKIP("no Python with safetensors; scripts/setup.sh --oracles installs it");
  const TempFolder folder;
  attack::Random random(11);
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

// Tests that files agree with the official `safetensors` package in both directions.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <random>

#include "apps/rondo/run_program.h"
#include "checkpoint/safetensors/reader.h"
#include "checkpoint/safetensors/writer.h"
#include "tests/checkpoint/safetensors/texts.h"
#include "tests/datasets/temp_folder.h"

namespace rondo::safetensors {
namespace {

const std::string kPython = std::string(RONDO_SOURCE_DIR) + "/scripts/oracle_python.sh";

bool have_package() { return run_program({kPython, "-c", "import safetensors"}, 60'000).exit_code == 0; }

// Reads our file, writes the same tensors with the package, and compares both.
constexpr const char* kRewrite = R"(
import ctypes, sys
import safetensors
ours, theirs = sys.argv[1:]
names = {'BOOL': 'bool', 'U8': 'uint8', 'I8': 'int8', 'F8_E5M2': 'float8_e5m2', 'F8_E4M3': 'float8_e4m3fn',
         'I16': 'int16', 'U16': 'uint16', 'F16': 'float16', 'BF16': 'bfloat16', 'I32': 'int32', 'U32': 'uint32',
         'F32': 'float32', 'F64': 'float64', 'I64': 'int64', 'U64': 'uint64'}
tensors, alive = {}, []
for name, t in safetensors.deserialize(open(ours, 'rb').read()):
    data = bytes(t['data'])
    buffer = ctypes.create_string_buffer(data, max(1, len(data)))
    alive.append(buffer)
    tensors[name] = safetensors.TensorSpec(dtype=names[t['dtype']], shape=t['shape'],
                                           data_ptr=ctypes.addressof(buffer), data_len=len(data))
safetensors.serialize_file(tensors, theirs, {'format': 'pt'})
print(len(tensors))
)";

constexpr const char* kWriteNumbers = R"(
import sys
import numpy
from safetensors.numpy import save_file
save_file({'matrix': numpy.arange(6, dtype=numpy.float32).reshape(2, 3), 'ids': numpy.array([-1, 2**40]),
           'nothing': numpy.zeros((0, 4), numpy.float16)}, sys.argv[1], {'by': 'numpy'})
)";

template <class T>
std::vector<T> numbers(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

TEST_CASE("the official package reads our file and writes it to the same bytes") {
  if (!have_package()) SKIP("no Python with safetensors; scripts/setup.sh --oracles installs it");
  const TempFolder folder;
  Writer writer(folder.path("ours"), tensors_of_all_kinds(), {{"format", "pt"}});
  std::mt19937 random(3);
  for (const TensorInfo& info : writer.header().tensors) {
    std::string data;
    while (data.size() < info.bytes()) data += static_cast<char>(info.dtype == Dtype::boolean ? 1 : random());
    writer.write(info.name, 0, as_span(data));
  }
  writer.finish();
  const ProgramResult result =
      run_program({kPython, "-c", kRewrite, folder.path("ours"), folder.path("theirs")}, 60'000);
  CAPTURE(result.output);
  REQUIRE(result.exit_code == 0);
  CHECK(result.output == std::to_string(tensors_of_all_kinds().size()) + "\n");
  CHECK(contents_of(folder.path("ours")) == contents_of(folder.path("theirs")));
  CHECK(File(folder.path("theirs")).tensors() == writer.header().tensors);
}

TEST_CASE("a file of the official package is read with its numbers") {
  if (!have_package()) SKIP("no Python with safetensors; scripts/setup.sh --oracles installs it");
  const TempFolder folder;
  const ProgramResult result = run_program({kPython, "-c", kWriteNumbers, folder.path("w")}, 60'000);
  CAPTURE(result.output);
  REQUIRE(result.exit_code == 0);
  const File file(folder.path("w"));
  CHECK(file.metadata() == Metadata{{"by", "numpy"}});
  REQUIRE(file.tensors().size() == 3);
  const TensorInfo& matrix = *file.find("matrix");
  CHECK(matrix.dtype == Dtype::f32);
  CHECK(matrix.shape == std::vector<std::int64_t>{2, 3});
  CHECK(numbers<float>(file.bytes(matrix)) == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(numbers<float>(file.bytes(matrix, 2, 4)) == std::vector<float>{2, 3});
  CHECK(numbers<std::int64_t>(file.bytes(*file.find("ids"))) ==
        std::vector<std::int64_t>{-1, std::int64_t{1} << 40});
  CHECK(file.find("nothing")->shape == std::vector<std::int64_t>{0, 4});
}

}  // namespace rondo::safetensors

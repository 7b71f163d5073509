// The kernels of this program beside their table (kernels.txt), and whether ptxas may change their
// bits. ptxas may fuse a `mul` and an `add` that name no rounding into one fma. It fuses none that
// say .rn.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <set>

#include "tests/ptx/program.h"

namespace rondo::ptx {
namespace {

const std::string kTable = std::string(RONDO_SOURCE_DIR) + "/tests/ptx/kernels.txt";

// Files whose kernels promise the CPU's bits.
const std::set<std::string> kSameBits = {"adamw",       "add_widened",  "float8",         "grouped_sum",
                                         "latent_keys", "normal_draws", "nvfp4",          "permute_tokens",
                                         "rope",        "sort_slots",   "sums_of_squares"};

int count(const Kernel& kernel, const std::string& opcode) {
  const auto it = kernel.opcodes.find(opcode);
  return it == kernel.opcodes.end() ? 0 : it->second;
}
// The number of multiplications and additions, if ptxas may fuse one of each.
int free_to_fuse(const Kernel& kernel) {
  int sum = 0;
  for (const std::string type : {".f32", ".f64"}) {
    const int products = count(kernel, "mul" + type),
              sums = count(kernel, "add" + type) + count(kernel, "sub" + type);
    if (products > 0 && sums > 0) sum += products + sums;
  }
  return sum;
}
int approximations(const Kernel& kernel) {
  int sum = 0;
  for (const auto& [opcode, times] : kernel.opcodes)
    if (opcode.find(".approx") != std::string::npos || opcode.find(".ftz") != std::string::npos) sum += times;
  return sum;
}

std::string row(const LinkedKernel& linked, const Kernel& kernel) {
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "%5d %5d %6d",
                count(kernel, "fma.rn.f32") + count(kernel, "fma.rn.f64"), free_to_fuse(kernel),
                approximations(kernel));
  std::string file = linked.file;
  file.resize(std::max<std::size_t>(file.size(), 19), ' ');
  return file + numbers + "  " + short_name(linked.name);
}

std::string table() {
  std::vector<std::string> rows;
  for (const LinkedKernel& linked : linked_kernels()) rows.push_back(row(linked, decode(linked.text)));
  std::sort(rows.begin(), rows.end());
  std::string text =
      "# Kernels as nvcc compiled them to PTX: fused multiplications and additions; those that ptxas may "
      "fuse; opcodes\n"
      "# that approximate or flush. `ptx_test \"[write]\"` writes it.\n"
      "file                 fma  free approx  kernel\n";
  for (const std::string& line : rows) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("the table of PTX is written", "[.][write]") { std::ofstream(kTable) << table(); }

TEST_CASE("each kernel has the fused operations of its row in the table of PTX") {
  std::ifstream file(kTable);
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  CHECK(table() == expected);
}

TEST_CASE("ptxas cannot change the bits of kernels that promise the CPU's") {
  for (const LinkedKernel& linked : linked_kernels()) {
    if (!kSameBits.contains(linked.file)) continue;
    const Kernel kernel = decode(linked.text);
    INFO(linked.file << " " << short_name(linked.name));
    CHECK(free_to_fuse(kernel) == 0);
    CHECK(count(kernel, "ex2.approx.ftz.f32") == 0);
  }
}

}  // namespace rondo::ptx

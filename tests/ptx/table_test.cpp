// The kernels of this program beside their table (kernels.txt), and whether ptxas may change their
// bits. ptxas may fuse a `mul` and an `add` that name no rounding into one fma. It fuses none that
// say .rn. Deliberate bugs follow: each is found by the name of its kernel.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>

#include "tests/ptx/program.h"

namespace rondo::ptx {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string kTable = std::string(RONDO_SOURCE_DIR) + "/tests/ptx/kernels.txt";

// Files whose kernels promise the CPU's bits.
const std::set<std::string> kSameBits = {"adamw",          "add_widened", "float8",       "grouped_sum",
                                         "latent_keys",    "muon",        "normal_draws", "nvfp4",
                                         "permute_tokens", "rope",        "sort_slots",   "sums_of_squares"};

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

std::set<std::string> rows() {
  std::set<std::string> all;
  for (const LinkedKernel& linked : linked_kernels()) all.insert(row(linked, decode(linked.text)));
  return all;
}
std::string table() {
  std::string text =
      "# Kernels as nvcc compiled them to PTX: fused multiplications and additions; those that ptxas may "
      "fuse; opcodes\n"
      "# that approximate or flush. `ptx_test \"[write]\"` writes it.\n"
      "file                 fma  free approx  kernel\n";
  for (const std::string& line : rows()) text += line + "\n";
  return text;
}

// Returns the rows that the table lacks, one per line.
std::string missing_rows() {
  std::ifstream file(kTable);
  std::set<std::string> expected;
  for (std::string line; std::getline(file, line);) expected.insert(line);
  const std::set<std::string> now = rows();
  std::ostringstream missing;
  std::set_difference(now.begin(), now.end(), expected.begin(), expected.end(),
                      std::ostream_iterator<std::string>(missing, "\n"));
  return missing.str();
}

// Returns why ptxas or a GPU may give a kernel other bits than the CPU's, or "".
std::string bits_at_risk(const Kernel& kernel) {
  if (free_to_fuse(kernel) > 0) return "ptxas may fuse its products and sums";
  if (approximations(kernel) > 0) return "it approximates, or flushes small numbers";
  return count(kernel, "fma.rm.f32") > 0 ? "it rounds down" : "";
}

// Returns what the tests below find in all kernels, or the decoder's error.
std::string problems() {
  try {
    std::string text = missing_rows();
    for (const LinkedKernel& linked : linked_kernels())
      if (kSameBits.contains(linked.file))
        if (const std::string risk = bits_at_risk(decode(linked.text)); !risk.empty())
          text += linked.file + " " + short_name(linked.name) + ": " + risk + "\n";
    return text;
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

// Changes a kernel's PTX as a lost flag of nvcc, a fast-math flag or another intrinsic would.
struct OtherCode {
  const char* bug;
  const char* kernel;
  std::vector<std::pair<const char*, const char*>> replaced;
  const char* found;
};
const std::vector<OtherCode> kOtherCodes = {
    {"AdamW is compiled with contraction",
     "update_kernelIfff",
     {{"mul.rn.f32", "mul.f32"}, {"add.rn.f32", "add.f32"}},
     "adamw update_kernel<float, float, float, ToNearest, UpdatedTensor>: ptxas may fuse"},
    {"rotations are compiled with contraction",
     "rope_kernelIfLb1",
     {{"mul.rn.f32", "mul.f32"}, {"sub.rn.f32", "sub.f32"}},
     "rope rope_kernel<float, true>: ptxas may fuse"},
    {"sums of slots are compiled with contraction",
     "unpermute_kernelIffLi4ELb1",
     {{"mul.rn.f32", "mul.f32"}, {"add.rn.f32", "add.f32"}},
     "permute_tokens unpermute_kernel<float, float, 4, true>: ptxas may fuse"},
    {"draws are compiled with contraction",
     "draw_kernelIf",
     {{"mul.rn.f64", "mul.f64"}, {"add.rn.f64", "add.f64"}},
     "normal_draws draw_kernel<float>: ptxas may fuse"},
    {"NVFP4 fuses a product and a sum", "12piece_kernel", {{"add.rn.f32", "fma.rn.f32"}}, "nvfp4 "},
    {"AdamW divides by a fast approximation",
     "update_kernelIfff",
     {{"div.rn.f32", "div.full.f32"}},
     "update_kernelIfff"},
    {"AdamW flushes small numbers", "update_kernelIfff", {{"sqrt.rn.f32", "sqrt.rn.ftz.f32"}}, "sqrt.rn.ftz"},
    {"sums of experts are rounded down", "run_sums_kernelIf", {{"add.f32", "add.rm.f32"}}, "add.rm.f32"},
    {"float8 takes an exponential of the GPU",
     "13search_kernelIf",
     {{"abs.f32", "ex2.approx.ftz.f32"}},
     "float8 search_kernel<float>: it approximates"},
    {"sums of squares are rounded down", "chunk_kernelIf", {{"fma.rn.f64", "fma.rm.f64"}}, "fma.rm.f64"},
    {"sums of tiles are a fused operation that rounds down",
     "tile_sums_kernelIfLb1",
     {{"add.f32", "fma.rm.f32"}},
     "grouped_sum tile_sums_kernel<float, true>: it rounds down"},
};

}  // namespace

TEST_CASE("the table of PTX is written", "[.][write]") { std::ofstream(kTable) << table(); }

TEST_CASE("each kernel has the fused operations of its row in the table of PTX") {
  CHECK(missing_rows() == "");
  std::ifstream file(kTable);
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  CHECK((table() == expected));  // no other rows
}

TEST_CASE("ptxas cannot change the bits of kernels that promise the CPU's") {
  for (const LinkedKernel& linked : linked_kernels()) {
    if (!kSameBits.contains(linked.file)) continue;
    INFO(linked.file << " " << short_name(linked.name));
    CHECK(bits_at_risk(decode(linked.text)) == "");
  }
}

TEST_CASE("a lost flag, and an operation that rounds in another way, are found by the kernel's name") {
  CHECK(problems() == "");
  for (const OtherCode& other : kOtherCodes) {
    INFO(other.bug);
    std::vector<std::unique_ptr<Mutation>> mutations;
    for (const auto& [from, to] : other.replaced)
      mutations.push_back(std::make_unique<Mutation>(other.kernel, from, to));
    CHECK_THAT(problems(), ContainsSubstring(other.found));
  }
}

}  // namespace rondo::ptx

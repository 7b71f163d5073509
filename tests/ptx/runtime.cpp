// Replaces what a launch of this program's own kernels calls in CUDA's runtime, so that a launch
// interprets the PTX that nvcc put into the kernel's object. Pointers are those of the host.
//
// Format of that object (fat binary): https://docs.nvidia.com/cuda/ documents only that it holds
// PTX. The layout here is what nvcc 13 writes: a header of 16 bytes, then entries of a header and a
// payload; PTX is kind 1, compressed by zstd.
#include <cuda_runtime_api.h>
#include <cxxabi.h>
#include <zstd.h>

#include <cstdlib>
#include <regex>
#include <unordered_map>

#include "tests/ptx/registers.h"

namespace rondo::ptx {
namespace {

struct FatBinary {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};
struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
};
struct Wrapper {  // what a program registers
  std::uint32_t magic, version;
  void* binary;
  void* unused;
};
constexpr std::uint32_t kMagic = 0xba55ed50;
constexpr std::uint16_t kPtx = 1;

std::string decompressed(const char* data, std::size_t bytes) {
  const auto size = ZSTD_getFrameContentSize(data, bytes);
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR)
    throw std::runtime_error("ptx: a fat binary whose PTX is not compressed by zstd");
  std::string text(size, '\0');
  if (ZSTD_isError(
          ZSTD_decompress(text.data(), text.size(), data, ZSTD_findFrameCompressedSize(data, bytes))))
    throw std::runtime_error("ptx: a fat binary whose PTX is damaged");
  text.resize(text.find('\0'));
  return text;
}

std::string ptx_of(const FatBinary& binary) {
  if (binary.magic != kMagic) throw std::runtime_error("ptx: not a fat binary");
  const char* at = reinterpret_cast<const char*>(&binary) + binary.header_bytes;
  const char* const end = at + binary.bytes;
  while (at < end) {
    Entry entry;
    std::memcpy(&entry, at, sizeof entry);
    if (entry.kind == kPtx) return decompressed(at + entry.header_bytes, entry.bytes);
    at += entry.header_bytes + entry.bytes;
  }
  throw std::runtime_error("ptx: a fat binary without PTX; CMAKE_CUDA_ARCHITECTURES must be 90");
}

struct Registered {
  const FatBinary* binary;
  std::string name;
};
struct State {
  std::unordered_map<const void*, Registered> functions;  // by the address of the host's function
  std::map<const FatBinary*, std::map<std::string, std::string, std::less<>>> texts;
  std::map<std::string, Kernel, std::less<>> decoded;
  std::map<std::string, Work, std::less<>> launched;
  Order order = Order::ascending;
  bool ends_only = false;
  Grid grid;
};
// Libraries register their kernels before the program's own objects are initialized.
State& state() {
  static auto* const it = new State;
  return *it;
}

std::map<std::string, std::string, std::less<>>& texts_of(const FatBinary* binary) {
  auto& texts = state().texts[binary];
  if (texts.empty()) texts = kernels_of(ptx_of(*binary));
  return texts;
}

// LibTorch's kernels are registered here, too, but are never launched.
bool is_own(const std::string& name) { return name.find("5rondo4cuda") != std::string::npos; }

void launch(const void* function, const Grid& grid, void** arguments) {
  const auto it = state().functions.find(function);
  if (it == state().functions.end())
    throw std::runtime_error("ptx: a launch of a kernel that is not registered");
  const auto& [binary, name] = it->second;
  auto kernel = state().decoded.find(name);
  if (kernel == state().decoded.end())
    kernel = state().decoded.emplace(name, decode(texts_of(binary).at(name))).first;
  Work& all = state().launched[name];
  const Work work = run(kernel->second, grid, arguments, state().order);
  all.instructions += work.instructions;
  all.global_bytes += work.global_bytes;
}

}  // namespace

std::vector<LinkedKernel> linked_kernels() {
  std::vector<LinkedKernel> kernels;
  for (const auto& [function, registered] : state().functions) {
    if (!is_own(registered.name)) continue;
    // The unnamed namespace of a file: "_GLOBAL__N__cfde4d20_9_swiglu_cu_001a23a1".
    static const std::regex file("_GLOBAL__N__[0-9a-f]+_[0-9]+_(\\w+?)_cu_");
    std::smatch match;
    std::regex_search(registered.name, match, file);
    kernels.push_back({match[1], registered.name, texts_of(registered.binary).at(registered.name)});
  }
  return kernels;
}

std::string short_name(const std::string& mangled) {
  char* const demangled = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr);
  std::string name = demangled;
  std::free(demangled);
  name = std::regex_replace(
      name, std::regex(R"((\(anonymous namespace\)|_GLOBAL__N__\w+|rondo::cuda|rondo)::|^void )"), "");
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

const std::map<std::string, Work, std::less<>>& work_of_kernels() { return state().launched; }

std::vector<std::string> kernels_not_launched() {
  std::vector<std::string> names;
  for (const auto& [function, registered] : state().functions)
    if (is_own(registered.name) && !state().launched.contains(registered.name))
      names.push_back(registered.name);
  return names;
}

void set_order(Order order) { state().order = order; }
void run_ends_only(bool ends_only) { state().ends_only = ends_only; }

Mutation::Mutation(std::string_view kernel, std::string_view from, std::string_view to) {
  bool is_linked = false;
  for (const LinkedKernel& it : linked_kernels()) {
    if (it.name.find(kernel) == std::string::npos) continue;
    is_linked = true;
    std::string text(it.text);
    std::size_t at = text.find(from);
    if (at == std::string::npos)
      throw std::runtime_error("ptx: " + it.name + " does not have the text to replace");
    for (; at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
    for (auto& [binary, texts] : state().texts)
      if (const auto entry = texts.find(it.name); entry != texts.end()) entry->second = text;
  }
  if (!is_linked) throw std::runtime_error("ptx: no kernel to change");
  state().decoded.clear();
}

Mutation::~Mutation() {
  state().texts.clear();
  state().decoded.clear();
}

}  // namespace rondo::ptx

using namespace rondo::ptx;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) { return &static_cast<Wrapper*>(wrapper)->binary; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void** handle, const char* function, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  state().functions[function] = {static_cast<const FatBinary*>(*handle), name};
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t, cudaStream_t) {
  state().grid = {grid.x, grid.y, grid.z, block.x, false};
  return block.y == 1 && block.z == 1 ? 0 : 1;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = {state().grid.x, state().grid.y, state().grid.z};
  *block = {state().grid.threads, 1, 1};
  *shared = 0;
  *static_cast<cudaStream_t*>(stream) = nullptr;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t,
                               cudaStream_t) {
  launch(kernel, {grid.x, grid.y, grid.z, block.x, state().ends_only}, arguments);
  return cudaSuccess;
}

}  // extern "C"

// Every tensor is between two inaccessible pages: an access of attention's kernels outside a tensor
// ends the test.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <c10/core/CPUAllocator.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <mutex>
#include <new>
#include <unordered_map>

#include "ops/attention/attention.h"

namespace rondo {
namespace {

using at::Tensor;

enum class Side { begin, end };  // the end of the data that touches an inaccessible page

// Blocks between inaccessible pages. They stay inaccessible after they are freed.
class GuardedMemory final : public c10::Allocator {
 public:
  explicit GuardedMemory(Side side) : side_(side) {}
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::kCPU};
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inner = (bytes + page - 1) / page * page;
    void* mapped =
        mmap(nullptr, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    char* first = static_cast<char*>(mapped) + page;
    if (mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    char* data = side_ == Side::begin ? first : first + inner - bytes;
    const std::lock_guard lock(mutex);
    blocks[data] = {first, inner};
    return {data, data, &release, c10::kCPU};  // context == data: oneDNN calls raw_allocate
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  struct Block {
    char* first;
    std::size_t bytes;
  };
  static void release(void* data) {
    if (data == nullptr) return;
    const std::lock_guard lock(mutex);
    const Block block = blocks.at(data);
    blocks.erase(data);
    madvise(block.first, block.bytes, MADV_DONTNEED);
    mprotect(block.first, block.bytes, PROT_NONE);
  }
  static inline std::mutex mutex;
  static inline std::unordered_map<void*, Block> blocks;
  Side side_;
};

// Guards all tensors during its lifetime.
class Guard {
 public:
  explicit Guard(Side side) : memory_(side), before_(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(&memory_, 200);
  }
  ~Guard() { c10::SetCPUAllocator(before_, 200); }

 private:
  GuardedMemory memory_;
  c10::Allocator* before_;
};

// The model's layout: [B, T, H, K] in memory, viewed as [B, H, T, K].
Tensor heads(std::int64_t batch, std::int64_t count, std::int64_t time, std::int64_t dim,
             at::ScalarType dtype) {
  return at::randn({batch, time, count, dim}).to(dtype).transpose(1, 2).requires_grad_(true);
}

// Row 0: documents of 1, 2, 3, ... tokens; row 1: one document.
Tensor borders_of(std::int64_t time) {
  std::vector<std::int32_t> borders;
  for (std::int32_t at = 0, length = 1; at < time; at += length, ++length) borders.push_back(at);
  borders.push_back(static_cast<std::int32_t>(time));
  borders.resize(static_cast<std::size_t>(2 * time) + 1, static_cast<std::int32_t>(2 * time));
  return at::from_blob(borders.data(), {2 * time + 1}, at::kInt).clone();
}

void forward_and_backward(std::int64_t groups, std::int64_t time, std::int64_t dim, at::ScalarType dtype,
                          const std::optional<Tensor>& borders) {
  const Tensor q = heads(2, 4, time, dim, dtype), k = heads(2, groups, time, dim, dtype),
               v = heads(2, groups, time, dim, dtype);
  const Tensor out = attention({q, k, v, borders, 1.0 / std::sqrt(static_cast<double>(dim))});
  const auto gradients = torch::autograd::grad({(out * out).sum()}, {q, k, v});
  for (const Tensor& gradient : gradients) CHECK(std::isfinite(gradient.sum().item<float>()));
}

}  // namespace

TEST_CASE("a read one byte beyond a guarded tensor ends the process") {
  const Side side = GENERATE(Side::end, Side::begin);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    const Guard guard(side);
    const Tensor tensor = at::empty({7}, at::kByte);
    const auto* data = static_cast<const volatile std::uint8_t*>(tensor.const_data_ptr());
    _exit(data[side == Side::end ? 7 : -1]);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}

TEST_CASE("attention accesses nothing outside its tensors, with documents of any length") {
  const Side side = GENERATE(Side::end, Side::begin);
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kBFloat16);
  const std::int64_t dim = GENERATE(6, 16);
  const Guard guard(side);
  for (const std::int64_t time : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40}) {
    INFO("T " << time << ", head_dim " << dim << ", " << dtype);
    forward_and_backward(4, time, dim, dtype, {});
    forward_and_backward(2, time, dim, dtype, borders_of(time));
  }
}

}  // namespace rondo

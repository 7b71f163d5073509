// Threads are fibers. A context starts each; later switches are by _longjmp, since swapcontext
// makes a system call each time.
#include <cuda_runtime_api.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "tests/cuda/host/host_threads.h"

namespace rondo::host {
namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = 128 << 10;

// Threads that wait for each other, without those that have returned.
struct Group {
  unsigned alive = 0, arrived = 0, passed = 0;
  std::uint64_t given[2][kWarp] = {};  // values of a shuffle; lanes can be one shuffle apart

  void look() {
    if (alive == 0 || arrived < alive) return;
    arrived = 0;
    ++passed;
  }
};

struct Fiber {
  std::unique_ptr<char[]> stack;  // nullptr before the first block
  jmp_buf resumption;
  bool done = false;
  std::uint32_t block_barriers = 0, warp_barriers = 0;  // passed in this block
};

struct Block {
  std::uint64_t launch = 0, number = 0;
  const std::function<void()>* kernel = nullptr;
  std::vector<Fiber> fibers;
  std::vector<Group> warps;
  Group all;
  jmp_buf scheduler;
  std::exception_ptr error;
};
Block* running = nullptr;  // while its threads run
std::optional<std::mt19937> random_schedule;
std::map<std::pair<const char*, std::uint32_t>, std::int64_t> passed_barriers;  // by file and line
Barrier deleted_barrier;

Barrier barrier_of(std::string_view file, std::uint32_t line) {
  return std::string(file.substr(file.rfind("ops/"))) + ":" + std::to_string(line);
}

Fiber& this_fiber() { return running->fibers[threadIdx.x]; }
Group& this_warp() { return running->warps[threadIdx.x / kWarp]; }

void yield() {
  if (_setjmp(this_fiber().resumption) == 0) _longjmp(running->scheduler, 1);
}

void run_kernel() {
  try {
    (*running->kernel)();
  } catch (...) {
    running->error = std::current_exception();
  }
  this_fiber().done = true;
  for (Group* group : {&this_warp(), &running->all}) {
    --group->alive;
    group->look();
  }
}

// One thread of each block.
void body() {
  for (;;) {
    run_kernel();
    yield();
  }
}

void wait(Group& group) {
  const unsigned before = group.passed;
  ++group.arrived;
  group.look();
  while (group.passed == before) yield();
}

[[noreturn]] void start(Fiber& fiber) {
  fiber.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = kStackBytes;
  makecontext(&context, &body, 0);
  setcontext(&context);
  std::abort();
}

// Returns when the fiber yields.
[[gnu::noinline]] void resume(Block& block, Fiber& fiber) {
  if (_setjmp(block.scheduler) != 0) return;
  if (!fiber.stack) start(fiber);
  _longjmp(fiber.resumption, 1);
}

// Counts a barrier. Returns false for a deleted one.
bool is_barrier(const std::source_location& at) {
  if (!random_schedule) return true;
  ++passed_barriers[{at.file_name(), at.line()}];
  return deleted_barrier.empty() || barrier_of(at.file_name(), at.line()) != deleted_barrier;
}

void run(Block& block) {
  const auto threads = static_cast<unsigned>(block.fibers.size());
  std::vector<unsigned> order(threads);
  std::iota(order.begin(), order.end(), 0u);
  block.all = {.alive = threads};
  for (unsigned i = 0; i < block.warps.size(); ++i)
    block.warps[i] = {.alive = min(kWarp, threads - i * kWarp)};
  for (Fiber& fiber : block.fibers) fiber.done = false, fiber.block_barriers = fiber.warp_barriers = 0;
  while (block.all.alive > 0) {
    if (random_schedule) std::shuffle(order.begin(), order.end(), *random_schedule);
    for (const unsigned i : order) {
      if (block.fibers[i].done) continue;
      threadIdx.x = i;
      resume(block, block.fibers[i]);
      if (block.error) return;
    }
  }
}

}  // namespace

std::optional<Thread> this_thread() {
  if (running == nullptr) return std::nullopt;
  const Fiber& fiber = this_fiber();
  return Thread{running->launch,
                running->number,
                threadIdx.x,
                fiber.block_barriers,
                fiber.warp_barriers,
                fiber.stack.get(),
                fiber.stack.get() + kStackBytes};
}

void yield_thread() { yield(); }

void fail_kernel(const std::string& text) {
  running->error = std::make_exception_ptr(std::runtime_error(text));
  for (;;) yield();
}

void set_random_schedule(std::uint32_t seed) { random_schedule.emplace(seed); }
bool draw_one_in(std::uint32_t n) { return (*random_schedule)() % n == 0; }

std::map<Barrier, std::int64_t> barriers_passed() {
  std::map<Barrier, std::int64_t> counts;
  for (const auto& [at, count] : passed_barriers) counts[barrier_of(at.first, at.second)] += count;
  return counts;
}
void delete_barrier(const Barrier& barrier) { deleted_barrier = barrier; }

}  // namespace rondo::host

using namespace rondo::host;

void run_on_host(const std::function<void()>& kernel, dim3 grid, unsigned threads) {
  static std::uint64_t launches = 0;
  Block block;
  block.launch = ++launches;
  block.kernel = &kernel;
  block.fibers.resize(threads);
  block.warps.resize((threads + kWarp - 1) / kWarp);
  gridDim = grid;
  blockDim = dim3(threads);
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x, ++block.number) {
        running = &block;
        run(block);
        running = nullptr;
        if (block.error) std::rethrow_exception(block.error);
      }
}

void __syncthreads(std::source_location at) {
  if (!is_barrier(at)) return;
  wait(running->all);
  ++this_fiber().block_barriers;
}

std::uint64_t exchange_in_warp(std::uint64_t value, unsigned from) {
  Group& warp = this_warp();
  const unsigned side = warp.passed % 2;
  warp.given[side][threadIdx.x % kWarp] = value;
  wait(warp);
  return warp.given[side][from];
}

void __syncwarp(std::source_location at) {
  if (!is_barrier(at)) return;
  wait(this_warp());
  ++this_fiber().warp_barriers;
}

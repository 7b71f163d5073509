// Threads are fibers. A context starts each; later switches are by _longjmp, since swapcontext makes a
// system call each time.
#include <cuda_runtime_api.h>
#include <setjmp.h>
#include <ucontext.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

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
};

struct Block {
  const std::function<void()>* kernel = nullptr;
  std::vector<Fiber> fibers;
  std::vector<Group> warps;
  Group all;
  jmp_buf scheduler;
  std::exception_ptr error;
};
Block* running = nullptr;

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

void run(Block& block) {
  const auto threads = static_cast<unsigned>(block.fibers.size());
  block.all = {.alive = threads};
  for (unsigned i = 0; i < block.warps.size(); ++i)
    block.warps[i] = {.alive = min(kWarp, threads - i * kWarp)};
  for (Fiber& fiber : block.fibers) fiber.done = false;
  while (block.all.alive > 0 && !block.error)
    for (unsigned i = 0; i < threads; ++i) {
      if (block.fibers[i].done) continue;
      threadIdx.x = i;
      resume(block, block.fibers[i]);
    }
}

}  // namespace

void run_on_host(const std::function<void()>& kernel, dim3 grid, unsigned threads) {
  Block block;
  block.kernel = &kernel;
  block.fibers.resize(threads);
  block.warps.resize((threads + kWarp - 1) / kWarp);
  running = &block;
  gridDim = grid;
  blockDim = dim3(threads);
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
        run(block);
        if (block.error) std::rethrow_exception(block.error);
      }
}

void __syncthreads() { wait(running->all); }

std::uint64_t exchange_in_warp(std::uint64_t value, unsigned from) {
  Group& warp = this_warp();
  const unsigned side = warp.passed % 2;
  warp.given[side][threadIdx.x % kWarp] = value;
  wait(warp);
  return warp.given[side][from];
}

#include <cuda_runtime_api.h>
#include <ucontext.h>

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
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool done = false;
};

struct Block {
  const std::function<void()>* kernel = nullptr;
  std::vector<Fiber> fibers;
  std::vector<Group> warps;
  Group all;
  ucontext_t scheduler;
  std::exception_ptr error;
};
Block* running = nullptr;

Fiber& this_fiber() { return running->fibers[threadIdx.x]; }
Group& this_warp() { return running->warps[threadIdx.x / kWarp]; }

void body() {
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
  swapcontext(&this_fiber().context, &running->scheduler);
}

void wait(Group& group) {
  const unsigned before = group.passed;
  ++group.arrived;
  group.look();
  while (group.passed == before) swapcontext(&this_fiber().context, &running->scheduler);
}

void start(Fiber& fiber) {
  if (!fiber.stack) fiber.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  fiber.done = false;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  makecontext(&fiber.context, &body, 0);
}

void run(Block& block) {
  const auto threads = static_cast<unsigned>(block.fibers.size());
  block.all = {.alive = threads};
  for (unsigned i = 0; i < block.warps.size(); ++i)
    block.warps[i] = {.alive = min(kWarp, threads - i * kWarp)};
  for (Fiber& fiber : block.fibers) start(fiber);
  while (block.all.alive > 0 && !block.error)
    for (unsigned i = 0; i < threads; ++i) {
      if (block.fibers[i].done) continue;
      threadIdx.x = i;
      swapcontext(&block.scheduler, &block.fibers[i].context);
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

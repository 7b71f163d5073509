// Replaces the library's function: a program's own definition takes precedence for all callers.
#include "tests/ops/thread_wakeups.h"

#include <dlfcn.h>

#include <atomic>

namespace {

std::atomic<std::int64_t> wakeups = 0;

}  // namespace

extern "C" void GOMP_parallel(void (*run)(void*), void* data, unsigned threads, unsigned flags) {
  static const auto next = reinterpret_cast<decltype(&GOMP_parallel)>(dlsym(RTLD_NEXT, "GOMP_parallel"));
  if (threads != 1) ++wakeups;
  next(run, data, threads, flags);
}

namespace rondo {

std::int64_t thread_wakeups() { return wakeups; }

}  // namespace rondo

// Finds races of kernels on the host. GCC's -fsanitize=thread puts a call in front of each access
// to memory. This file has these functions instead of libtsan, which knows no fibers as a GPU's
// threads.
//
// Two accesses of different threads of a block race if one writes and no barrier lies between them:
// __syncthreads, or __syncwarp for lanes of a warp. Two blocks race on memory that both know, since
// nothing orders blocks. So one run shows the races of all schedules that access the same
// addresses.
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tests/cuda/host/host_threads.h"

// Shared memory of kernels is static data of the program.
extern "C" char __data_start, _end;

namespace rondo::host {
namespace {

using Bytes = std::uint8_t;  // bit i: byte i of a word of eight

struct Access {
  std::uint32_t thread, warp_barriers;
  Bytes bytes;
};

// Accesses to eight bytes at a multiple of eight.
struct Word {
  Bytes read_before = 0, written_before = 0;  // by other blocks of the launch
  std::uint64_t block = 0;
  std::uint32_t block_barriers = 0;
  std::vector<Access> reads, writes;  // since the last barrier of the block
  Bytes read = 0, written = 0;        // by this block

  void move_to(const Thread& thread, bool is_shared) {
    if (thread.block != block) {
      if (!is_shared) read_before |= read, written_before |= written;
      read = written = 0;
      block = thread.block;
    } else if (thread.block_barriers == block_barriers) {
      return;
    }
    block_barriers = thread.block_barriers;
    reads.clear();
    writes.clear();
  }
};

// The words of the launch that runs.
std::unordered_map<std::uintptr_t, Word> words;
std::uint64_t launch = 0;

bool is_unordered(const std::vector<Access>& earlier, const Thread& thread, Bytes bytes) {
  for (const Access& access : earlier) {
    if (access.thread == thread.number || (access.bytes & bytes) == 0) continue;
    const bool same_warp = access.thread / 32 == thread.number / 32;
    if (!same_warp || access.warp_barriers >= thread.warp_barriers) return true;
  }
  return false;
}

void add(std::vector<Access>& accesses, const Thread& thread, Bytes bytes) {
  if (!accesses.empty()) {
    Access& last = accesses.back();
    if (last.thread == thread.number && last.warp_barriers == thread.warp_barriers) {
      last.bytes |= bytes;
      return;
    }
  }
  accesses.push_back({thread.number, thread.warp_barriers, bytes});
}

void access_word(std::uintptr_t at, Bytes bytes, bool writes, const Thread& thread, bool is_shared) {
  Word& word = words[at];
  word.move_to(thread, is_shared);
  const Bytes before = word.written_before | (writes ? word.read_before : Bytes(0));
  if ((before & bytes) != 0) fail_kernel("a race of two blocks");
  if (is_unordered(word.writes, thread, bytes) || (writes && is_unordered(word.reads, thread, bytes)))
    fail_kernel(is_shared ? "a race on shared memory" : "a race of two threads of a block");
  add(writes ? word.writes : word.reads, thread, bytes);
  (writes ? word.written : word.read) |= bytes;
}

void access(const void* pointer, std::size_t size, bool writes) {
  const auto thread = this_thread();
  const char* const begin = static_cast<const char*>(pointer);
  if (!thread || (begin >= thread->stack && begin < thread->stack_end)) return;
  const bool is_shared = begin >= &__data_start && begin < &_end;
  if (thread->launch != launch) words.clear();
  launch = thread->launch;
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  for (std::uintptr_t at = first; at < first + size;) {
    const std::uintptr_t word = at / 8 * 8, end = std::min(word + 8, first + size);
    access_word(word, static_cast<Bytes>(((1u << (end - at)) - 1) << (at - word)), writes, *thread,
                is_shared);
    at = end;
  }
  if (is_shared && draw_one_in(4)) yield_thread();
}

}  // namespace
}  // namespace rondo::host

void report_copy(void* to, const void* from, std::size_t bytes) {
  rondo::host::access(from, bytes, false);
  rondo::host::access(to, bytes, true);
}

// The names that GCC calls.
#define RONDO_HOOK(size)                                                               \
  void __tsan_read##size(void* at) { rondo::host::access(at, size, false); }           \
  void __tsan_write##size(void* at) { rondo::host::access(at, size, true); }           \
  void __tsan_unaligned_read##size(void* at) { rondo::host::access(at, size, false); } \
  void __tsan_unaligned_write##size(void* at) { rondo::host::access(at, size, true); }
extern "C" {
RONDO_HOOK(1)
RONDO_HOOK(2)
RONDO_HOOK(4)
RONDO_HOOK(8)
RONDO_HOOK(16)
void __tsan_read_range(void* at, std::size_t size) { rondo::host::access(at, size, false); }
void __tsan_write_range(void* at, std::size_t size) { rondo::host::access(at, size, true); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}

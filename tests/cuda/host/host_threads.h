// Lets tests of races observe and change kernels that run on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace rondo::host {

// A thread of the kernel that runs. A barrier passes when all threads have arrived, so its number
// orders what is before it and behind it. A shuffle orders no accesses to memory.
struct Thread {
  std::uint64_t launch, block;                  // counted over the process
  std::uint32_t number;                         // in its block
  std::uint32_t block_barriers, warp_barriers;  // passed; of __syncthreads and __syncwarp
  const char *stack, *stack_end;
};
// Returns nullopt outside of kernels.
std::optional<Thread> this_thread();

// Lets other threads of the block run.
void yield_thread();
// Ends the kernel: its launch throws std::runtime_error with this text.
[[noreturn]] void fail_kernel(const std::string& text);

// Draws the order of threads, and where they yield, from this seed. Otherwise they run in ascending
// order up to the next barrier or shuffle.
void set_random_schedule(std::uint32_t seed);
// Returns true once in `n` draws. REQUIRES: set_random_schedule.
bool draw_one_in(std::uint32_t n);

// A barrier in a kernel: "ops/rope/rope.cu:75".
using Barrier = std::string;
// Returns how often threads came to each barrier since set_random_schedule.
std::map<Barrier, std::int64_t> barriers_passed();
// Threads do not wait at this barrier; "" restores it. REQUIRES: set_random_schedule.
void delete_barrier(const Barrier& barrier);

}  // namespace rondo::host

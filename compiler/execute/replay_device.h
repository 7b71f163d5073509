// What a replay needs of a device, and no more: memory for the plan, calls whose results land where they are
// planned, and recordings that are made, launched and destroyed. CUDA's stream capture behind a small
// interface, so that the replay's contract is tested where there is no GPU.
//
// Only `counted` may be called from another thread. What can fail throws; the errors of the device's own
// library pass as they are, and likely_cause() says what to make of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rondo {

class Instruction;

class ReplayDevice {
 public:
  using Recording = std::int32_t;

  virtual ~ReplayDevice() = default;

  // Where the tensors of the step lie.
  virtual c10::Device device() const = 0;

  // A block of the private pool, or of memory of the host that the device can read, aligned for every kernel.
  // Stands until release_pool.
  virtual char* reserve(std::size_t bytes) = 0;
  virtual char* reserve_on_host(std::size_t bytes) = 0;
  // REQUIRES: no recording is left, and no work under way.
  virtual void release_pool() noexcept = 0;
  virtual std::int64_t pool_bytes() const = 0;  // taken by the pool: blocks, and temporaries of kernels
  virtual std::int64_t free_bytes() const = 0;  // of the device's memory

  // Between the two, work of this thread goes to the device's stream, after what was issued before `enter`,
  // and its temporaries come from the pool, where it has room for them. What is issued after `leave` comes
  // after it.
  virtual void enter() = 0;
  virtual void leave() noexcept = 0;

  struct Issued {
    std::int64_t copied_results = 0;  // that a kernel put elsewhere, and that were brought to their place
    std::int64_t heap_bytes = 0;      // of temporaries for which the pool has no room
    bool keeps_memory = false;        // some of these are still held after the call
  };
  // Calls and settles the instruction: its results land at its placements, and what its kernels take beside
  // them lands in `room`, parts of the pool that are free until it is done. A device whose pool has room for
  // temporaries needs none. REQUIRES: entered. Throws Error(graph) where a kernel still holds some of `room`
  // afterwards.
  virtual Issued issue(Instruction& instruction, std::span<const std::span<char>> room) = 0;
  virtual void synchronize() = 0;

  // Recordings. The CPU makes none: the pass cudagraph is refused there.

  // Until end_capture what is issued is recorded, and nothing executes. REQUIRES: entered.
  virtual void begin_capture() = 0;
  virtual Recording end_capture() = 0;
  // Ends a capture that failed, and keeps nothing of it.
  virtual void abandon_capture() noexcept = 0;
  virtual void launch(Recording recording) = 0;
  // REQUIRES: not launched since the last `synchronize`.
  virtual void destroy(Recording recording) noexcept = 0;

  // Adds one to a counter, in the order of the stream, where it may be recorded as well. `counted` reads it
  // without waiting for anything.
  virtual void count_up() = 0;
  virtual std::int64_t counted() const = 0;
};

// What a failed capture comes from, judging by the text of the device's error: "the op waits for the device",
// "...".
std::string_view likely_cause(std::string_view error);

}  // namespace rondo

// What recording a step needs of a device, and no more: one stream, one private pool, recordings that are made,
// launched and destroyed. CUDA's stream capture behind a small interface, so that the executor's contract is tested
// where there is no GPU.
//
// Only `counted` may be called from another thread. What can fail throws; the errors of the device's own library pass
// as they are, and likely_cause() says what to make of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
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

  // Between the two, work of this thread goes to the recording's stream, after what was issued before `enter`, and
  // its temporaries come from the pool. What is issued after `leave` comes after it.
  virtual void enter() = 0;
  virtual void leave() noexcept = 0;

  // Until end_capture what is issued is recorded, and nothing executes. REQUIRES: entered.
  virtual void begin_capture() = 0;
  virtual Recording end_capture() = 0;
  // Ends a capture that failed, and keeps nothing of it.
  virtual void abandon_capture() noexcept = 0;

  // Calls and settles the instruction; the allocator hands out its placements for what its kernels ask for.
  virtual void issue(Instruction& instruction) = 0;
  // Adds one to a counter, in the order of the stream, where it may be recorded as well. `counted` reads it without
  // waiting for anything.
  virtual void count_up() = 0;
  virtual std::int64_t counted() const = 0;

  virtual void launch(Recording recording) = 0;
  virtual void synchronize() = 0;
  // REQUIRES: not launched since the last `synchronize`.
  virtual void destroy(Recording recording) noexcept = 0;
};

// What a failed capture comes from, judging by the text of the device's error: "the op waits for the device", "...".
std::string_view likely_cause(std::string_view error);

}  // namespace rondo

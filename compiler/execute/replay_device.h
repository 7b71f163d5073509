// The device interface of a replay: memory for the plan, calls with placed results, and recordings.
// It wraps CUDA's stream capture, so that the replay's contract can be tested without a GPU.
//
// Only `counted` may be called from another thread. Failures throw; errors of the device's library
// pass unchanged, and likely_cause() interprets them.
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

  // The device of the step's tensors.
  virtual c10::Device device() const = 0;

  // Reserves a block of the private pool, or of host memory that the device can read, aligned for
  // every kernel. Valid until release_pool.
  virtual char* reserve(std::size_t bytes) = 0;
  virtual char* reserve_on_host(std::size_t bytes) = 0;
  // REQUIRES: no recording is left, and no work is in flight.
  virtual void release_pool() noexcept = 0;
  virtual std::int64_t pool_bytes() const = 0;  // blocks, and temporaries of kernels
  virtual std::int64_t free_bytes() const = 0;  // of the device's memory

  // Between the two, work of this thread runs on the device's stream, after all work issued before
  // `enter`. Its temporaries use the pool, where that has room. Work issued after `leave` runs
  // after it.
  virtual void enter() = 0;
  virtual void leave() noexcept = 0;

  struct Issued {
    std::int64_t copied_results = 0;  // results that a kernel misplaced, copied to their place
    std::int64_t heap_bytes = 0;      // of temporaries without room in the pool
    bool keeps_memory = false;        // some of them are held after the call
  };
  // Calls and settles the instruction. Its results are at its placements. Its temporaries are in
  // `room`, parts of the pool that are free until it is done; a device whose pool has room for
  // temporaries needs none. Throws Error(graph) where a kernel holds a part of `room` afterwards.
  // REQUIRES: entered.
  virtual Issued issue(Instruction& instruction, std::span<const std::span<char>> room) = 0;
  virtual void synchronize() = 0;

  // The CPU has no recordings: the pass cudagraph is refused there.

  // Until end_capture, issued work is recorded and not executed. REQUIRES: entered.
  virtual void begin_capture() = 0;
  virtual Recording end_capture() = 0;
  // Ends a failed capture and discards it.
  virtual void abandon_capture() noexcept = 0;
  virtual void launch(Recording recording) = 0;
  // REQUIRES: not launched since the last `synchronize`.
  virtual void destroy(Recording recording) noexcept = 0;

  // Increments a counter in stream order; may be part of a recording. `counted` reads it
  // without waiting.
  virtual void count_up() = 0;
  virtual std::int64_t counted() const = 0;
};

// Interprets the text of a device's error after a failed capture: "it waits for the device, ...".
std::string_view likely_cause(std::string_view error);

}  // namespace rondo

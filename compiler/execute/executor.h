// Three ways to run a step behind one interface: eagerly, by interpreting its graph, and by
// replaying a fixed plan (replay.h).
//
// The contract is that of a CUDA graph. State is in tensors that are passed once, and that every
// run reads and overwrites in place. The batch is copied in. Results are in the executor's
// memory and valid until the next run. Before each run, the address, shape, strides and dtype of
// every state tensor are checked, and the shape and dtype of every batch tensor. A mismatch
// throws Error(graph) with the input's name. Executors are destroyed before the process groups.
// Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/execute/run_observer.h"
#include "compiler/ir/ir.h"
#include "compiler/trace/step_function.h"

namespace rondo {

// Counts and bytes of a replay on this rank.
struct ReplayStats {
  std::int64_t instructions = 0;  // ops a step, without views
  std::int64_t views = 0;         // created once
  std::int64_t segments = 0;      // recorded and launched
  std::int64_t recorded_ops = 0;  // instructions in segments; the host calls the others

  std::int64_t batch_bytes = 0;     // copied to the device in each step
  std::int64_t state_bytes = 0;     // of state, copied to its place by instructions in each step
  std::int64_t copied_results = 0;  // results that a kernel misplaced, copied in each step

  std::int64_t arena_bytes = 0;      // planned memory of all values on the device
  std::int64_t pool_bytes = 0;       // of the device's pool with its arenas, after all recordings
  std::int64_t heap_bytes = 0;       // maximum of one op's temporaries outside of the pool
  std::string largest_workspace_op;  // the op with that maximum
  std::int64_t free_bytes_before = 0, free_bytes_after = 0;  // before run 1, after run 2

  double warm_up_ms = 0;  // run 1
  double capture_ms = 0;  // the recordings in run 2

  // Adds the stats of another executor of the same step, which runs it `runs` times.
  void add(const ReplayStats& other, std::int64_t runs);
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs the step. `batch` has one tensor per batch input. Returns the plain results. Both are in
  // the function's order.
  virtual std::vector<at::Tensor> run(const std::vector<at::Tensor>& batch) = 0;
  // Returns the stats of a replay (replay.h), complete after its second run, or nullptr.
  virtual const ReplayStats* stats() const { return nullptr; }
};

// `state` has one tensor per state input, in the function's order, all on one device; executors of
// one run share it. The step runs on that device, or on `without_state` if it has no state. The
// batch is moved there. A result on another device throws Error(graph) with the op.
std::unique_ptr<Executor> make_eager(StepFunction function, std::vector<at::Tensor> state,
                                     c10::Device without_state = c10::kCPU);
std::unique_ptr<Executor> make_interpreter(ir::Graph graph, std::vector<at::Tensor> state,
                                           c10::Device without_state = c10::kCPU);

}  // namespace rondo

// Three ways to run a step behind one interface: eagerly, by interpreting its graph, and by replaying a fixed
// plan (replay.h).
//
// The contract is a CUDA graph's: state lives in tensors given once, which every run reads and overwrites in
// place; the batch is copied in; results stand in the executor's own memory until the next run. Before each
// run every state tensor's address, shape, strides and dtype are checked, and every batch tensor's shape and
// dtype: a mismatch is Error(graph) naming the input. Executors are destroyed before the process groups. Not
// thread-safe.
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

// What a replay does in a step and holds for it. Counts and bytes are those of this rank.
struct ReplayStats {
  std::int64_t instructions = 0;  // ops a step; views cost nothing
  std::int64_t views = 0;         // made once
  std::int64_t segments = 0;      // recorded and launched
  std::int64_t recorded_ops = 0;  // instructions in segments; the host calls the others, each step

  std::int64_t batch_bytes = 0;     // of the batch, copied to the device, each step
  std::int64_t state_bytes = 0;     // of state, copied to its place by instructions, each step
  std::int64_t copied_results = 0;  // results that a kernel put elsewhere and that are copied, each step

  std::int64_t arena_bytes = 0;      // planned memory of all values on the device
  std::int64_t pool_bytes = 0;       // of the device's pool, the arenas included, once all is recorded
  std::int64_t heap_bytes = 0;       // most that one op's temporaries take beside the pool
  std::string largest_workspace_op;  // which one
  std::int64_t free_bytes_before = 0, free_bytes_after = 0;  // of the device: before run 1, after run 2

  double warm_up_ms = 0;  // run 1
  double capture_ms = 0;  // recording, in run 2

  // Adds another executor of the same step, which runs it `runs` times.
  void add(const ReplayStats& other, std::int64_t runs);
};

class Executor {
 public:
  virtual ~Executor() = default;
  // `batch`: one tensor per batch input, in the function's order. Returns the plain results in the function's
  // order.
  virtual std::vector<at::Tensor> run(const std::vector<at::Tensor>& batch) = 0;
  // Of a replay (replay.h), complete after its second run; nullptr of the others.
  virtual const ReplayStats* stats() const { return nullptr; }
};

// `state`: one tensor per state input, in the function's order, all on one device; shared between executors
// of one run. These two run on whichever device that is (`without_state`: where a step runs that has none):
// the batch is moved there, and what an op puts elsewhere is Error(graph) naming it.
std::unique_ptr<Executor> make_eager(StepFunction function, std::vector<at::Tensor> state,
                                     c10::Device without_state = c10::kCPU);
std::unique_ptr<Executor> make_interpreter(ir::Graph graph, std::vector<at::Tensor> state,
                                           c10::Device without_state = c10::kCPU);

}  // namespace rondo

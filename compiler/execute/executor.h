// Three ways to run a step behind one interface: eagerly, by interpreting its graph, and by replaying a fixed
// plan.
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

#include "compiler/execute/cpu_memory.h"
#include "compiler/execute/run_observer.h"
#include "compiler/ir/ir.h"
#include "compiler/plan/memory_plan.h"
#include "compiler/trace/step_function.h"

namespace rondo {

struct ReplayFacts {
  std::int64_t instructions = 0;     // ops called each step; views cost nothing
  std::int64_t views = 0;            // made once
  std::int64_t arena_bytes = 0;      // planned memory of all values
  std::int64_t host_bytes = 0;       // of those on the host
  std::int64_t heap_bytes = 0;       // most that one op's temporaries take beside the arena
  std::string largest_workspace_op;  // which one
  std::int64_t copied_results = 0;   // results that a kernel put elsewhere and that are copied, each step
  std::int64_t copied_bytes = 0;     // batch and state bytes copied, each step
};

class Executor {
 public:
  virtual ~Executor() = default;
  // `batch`: one tensor per batch input, in the function's order. Returns the plain results in the function's
  // order.
  virtual std::vector<at::Tensor> run(const std::vector<at::Tensor>& batch) = 0;
};

// `state`: one tensor per state input, in the function's order, all on one device; shared between executors of one run.
// These two run on whichever device that is (`without_state`: where a step runs that has none): the batch is moved
// there, and what an op puts elsewhere is Error(graph) naming it.
std::unique_ptr<Executor> make_eager(StepFunction function, std::vector<at::Tensor> state,
                                     c10::Device without_state = c10::kCPU);
std::unique_ptr<Executor> make_interpreter(ir::Graph graph, std::vector<at::Tensor> state,
                                           c10::Device without_state = c10::kCPU);

class Replay : public Executor {
 public:
  virtual const ReplayFacts& facts() const = 0;
};
// `memory` holds plan.arena_bytes and plan.host_arena_bytes or more. Replays that never run at the same time may share it, as CUDA
// graphs share a pool; the results of one stand until another of them runs.
struct ReplayMemory {
  explicit ReplayMemory(std::int64_t bytes, std::int64_t host_bytes = 0)
      : arena(static_cast<std::size_t>(bytes)), host(static_cast<std::size_t>(host_bytes)) {}
  cpu_memory::Arena arena;
  cpu_memory::Arena host;  // offloaded values
};
std::unique_ptr<Replay> make_replay(const ir::Graph& graph, const ir::MemoryPlan& plan,
                                    std::shared_ptr<ReplayMemory> memory, std::vector<at::Tensor> state);

}  // namespace rondo

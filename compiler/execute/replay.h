// Plays a fixed plan: tensors, arguments and addresses are resolved once (planned_step.h), and a step is a
// list of instructions that a device calls, or has recorded.
//
// Where the graph has segments (compiler/ir/segments.h), the device records each once and launches it from
// then on. Run 1 is the warm-up: a real step, with temporaries from the device's pool. Run 2 records each
// segment, which executes nothing, and launches it. Later runs launch. What stands in no segment, and on the
// CPU that is all, the host calls in every run. State is read and written where it stands; the batch is
// copied in, and its bytes are all that is copied to the device in a step. Results stand in the plan's memory
// and are overwritten by the next run. Inputs are checked before every run, as executor.h says.
//
// Whatever ends the executor, its recordings are destroyed first, once each; then its tensors; and the pool
// when the last executor that shares it is gone. After a run that failed, further runs are refused.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/execute/executor.h"
#include "compiler/execute/planned_step.h"
#include "compiler/execute/replay_device.h"
#include "compiler/ir/ir.h"
#include "compiler/plan/memory_plan.h"
#include "support/watch/step_watch.h"

namespace rondo {

// The private pool of a device and the plan's arenas in it; one at a time. Replays that never run at the same
// time share it, as CUDA graphs share a pool; the results of one stand until another of them runs.
class ReplayMemory {
 public:
  // Holds plan.arena_bytes and plan.host_arena_bytes or more: the most that one of the plans needs.
  ReplayMemory(std::shared_ptr<ReplayDevice> device, std::int64_t bytes, std::int64_t host_bytes = 0);
  ~ReplayMemory();
  ReplayMemory(const ReplayMemory&) = delete;
  ReplayMemory& operator=(const ReplayMemory&) = delete;

  ReplayDevice& device() const { return *device_; }
  char* arena() const { return arena_; }
  char* host() const { return host_; }  // offloaded values
  SharedBatch& batch() { return batch_; }

 private:
  std::shared_ptr<ReplayDevice> device_;
  char* arena_ = nullptr;
  char* host_ = nullptr;
  SharedBatch batch_;
};

// `graph`: its segments come from the pass cudagraph. Throws Error(graph): an op, a collective or a state
// tensor that does not fit; where there are segments also inputs, by name, that are no dense tensors on the
// device. A segment that cannot be recorded is Error(graph) in run 2 and names op, module and likely cause.
// `watch` is told of every segment; nullptr: nobody watches. The executor's stats are complete after run 2.
std::unique_ptr<Executor> make_replay(const ir::Graph& graph, const ir::MemoryPlan& plan,
                                      std::shared_ptr<ReplayMemory> memory, std::vector<at::Tensor> state,
                                      StepWatch* watch = nullptr);

}  // namespace rondo

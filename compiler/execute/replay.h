// Runs a fixed plan. Tensors, arguments and addresses are resolved once (planned_step.h), and a
// step is a list of instructions that a device calls or has recorded.
//
// Where the graph has segments (compiler/ops/segments.h), the device records each segment once and
// launches it from then on. Run 1 is the warm-up: a real step, with temporaries from the device's
// pool. Run 2 records each segment, which executes nothing, and launches it. Later runs launch. The
// host calls all instructions outside of segments in every run; on the CPU these are all
// instructions. State is read and written in place. The batch is copied in, and nothing else is
// copied to the device in a step. Results are in the plan's memory and overwritten by the next run.
// Inputs are checked before every run, as in executor.h.
//
// However the executor ends, its recordings are destroyed first, once each, then its tensors. The
// pool is destroyed with the last executor that shares it. After a run that failed, further runs
// are refused.
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

// The private pool of a device with the plan's arenas. Replays that never run at the same time
// share it, as CUDA graphs share a pool. The results of one are valid until another one runs.
class ReplayMemory {
 public:
  // Allocates the maximum over the plans of arena_bytes and of host_arena_bytes.
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

// Makes a replay of a graph with the segments of the pass cudagraph. Throws Error(graph) for an
// unsupported op or collective, and for a state tensor that does not match. With segments, it also
// names inputs that are not dense tensors on the device. In run 2, a segment that cannot be
// recorded throws Error(graph) with op, module and likely cause. `watch` watches every segment
// unless it is nullptr.
std::unique_ptr<Executor> make_replay(const ir::Graph& graph, const ir::MemoryPlan& plan,
                                      std::shared_ptr<ReplayMemory> memory, std::vector<at::Tensor> state,
                                      StepWatch* watch = nullptr);

}  // namespace rondo

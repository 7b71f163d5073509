// A step whose segments (compiler/ir/segments.h) the device records once and launches from then on.
//
// Run 1 is the warm-up: a real step, on the recording's stream, with temporaries from its pool. Run 2 records each
// segment, which executes nothing, and launches it. Later runs launch. Nodes between segments are called by the host
// in every run. State is read and written where it stands; the batch is copied in, and its bytes are all that is
// copied to the device in a step. Results stand in the plan's memory and are overwritten by the next run. Inputs are
// checked before every run, as executor.h says.
//
// Whatever ends the executor, its recordings are destroyed first, once each; then its tensors; and the pool when the
// last executor that shares it is gone. After a run that failed, further runs are refused.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/execute/executor.h"
#include "compiler/execute/replay_device.h"
#include "compiler/execute/replay_watch.h"
#include "compiler/ir/ir.h"
#include "compiler/plan/memory_plan.h"

namespace rondo {

// The private pool of a device and the arenas in it; one at a time. Executors that never run at the same time share it.
class GraphMemory {
 public:
  // Bytes as in ReplayMemory: the most that one of the plans needs.
  GraphMemory(std::shared_ptr<ReplayDevice> device, std::int64_t bytes, std::int64_t host_bytes = 0);
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  ReplayDevice& device() const { return *device_; }
  char* arena() const { return arena_; }
  char* host() const { return host_; }

 private:
  std::shared_ptr<ReplayDevice> device_;
  char* arena_ = nullptr;
  char* host_ = nullptr;
};

struct GraphReplayFacts {
  std::int64_t segments = 0;      // recorded and launched
  std::int64_t instructions = 0;  // in all of them
  std::int64_t eager_ops = 0;     // called by the host between them, each step
  std::int64_t copied_bytes = 0;  // of the batch, to the device, each step
  std::int64_t arena_bytes = 0;   // planned memory of all values
  std::int64_t pool_bytes = 0;    // of the private pool, the arena included, once all is recorded
  std::int64_t free_bytes_before = 0, free_bytes_after = 0;  // of the device: before run 1, after run 2
  double warm_up_ms = 0;
  double capture_ms = 0;
};

class GraphReplay : public Executor {
 public:
  // Complete after run 2.
  virtual const GraphReplayFacts& facts() const = 0;
};

// `graph` comes from the pass cudagraph; without segments the host calls every op, at the same planned places. Throws Error(graph): inputs that are no dense tensors on the device, by name.
// A segment that cannot be recorded is Error(graph) in run 2 and names op, module and likely cause. `watch` is told of
// every segment; nullptr: nobody watches.
std::unique_ptr<GraphReplay> make_graph_replay(const ir::Graph& graph, const ir::MemoryPlan& plan,
                                               std::shared_ptr<GraphMemory> memory,
                                               std::vector<at::Tensor> state, ReplayWatch* watch = nullptr);

}  // namespace rondo

// A graph laid over memory: a tensor for every value at its planned address, made once, and what a step does
// as a list of instructions, which a replay (replay.cpp) has called or recorded by a device.
//
// Views are made here and cost nothing later; the return node stands for the copies of what updates the state
// without standing in it. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/execute/input_contract.h"
#include "compiler/execute/placed_results.h"
#include "compiler/ir/ir.h"
#include "compiler/plan/memory_plan.h"

namespace rondo {

class Instruction {
 public:
  Instruction(std::size_t index, const ir::Node& node) : index_(index), node_(&node) {}
  virtual ~Instruction() = default;

  // Calls the kernels. Whoever calls this lets the allocator hand out `placements()` for what they ask for.
  virtual void call() = 0;
  // Brings results that the kernels left elsewhere to their place. Returns how many. REQUIRES: right after
  // call().
  virtual std::int64_t settle() { return 0; }

  std::size_t index() const { return index_; }  // of the node
  const ir::Node& node() const { return *node_; }
  const std::vector<PlacedResult>& placements() const { return placements_; }

 protected:
  std::vector<PlacedResult> placements_;

 private:
  std::size_t index_;
  const ir::Node* node_;
};

// Where the plan's arenas lie. They outlive the step.
struct StepMemory {
  c10::Device device = c10::kCPU;
  char* arena = nullptr;
  char* host = nullptr;
  SharedBatch* batch = nullptr;  // nullptr: the step has its own
};

class PlannedStep {
 public:
  // Throws Error(graph): an op, a collective or a state tensor that does not fit.
  PlannedStep(const ir::Graph& graph, const ir::MemoryPlan& plan, const StepMemory& memory,
              std::vector<at::Tensor> state);
  PlannedStep(const PlannedStep&) = delete;
  PlannedStep& operator=(const PlannedStep&) = delete;
  ~PlannedStep();

  // A run: check the inputs and copy the batch in, then each instruction in order. A batch in pinned memory
  // must stand until the copies are done.
  void copy_batch_in(const std::vector<at::Tensor>& batch);
  const std::vector<std::unique_ptr<Instruction>>& instructions() const { return instructions_; }
  // The plain results, in the function's order: the same tensors after every run.
  const std::vector<at::Tensor>& results() const { return results_; }

  const ir::Graph& graph() const { return graph_; }
  const ir::MemoryPlan& plan() const { return plan_; }
  std::int64_t views() const { return views_; }
  std::int64_t batch_bytes() const { return batch_bytes_; }  // copied in, each run
  std::int64_t state_bytes() const { return state_bytes_; }  // copied to the state by instructions, each run

 private:
  class Builder;

  ir::Graph graph_;
  InputContract contract_;
  ir::MemoryPlan plan_;
  // What instructions share: the stack of the calls, and the work of collectives under way.
  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Instruction>> instructions_;
  std::vector<std::pair<std::size_t, at::Tensor>> batch_;  // index among the inputs, and its tensor here
  std::vector<at::Tensor> results_;
  std::int64_t views_ = 0, batch_bytes_ = 0, state_bytes_ = 0;
};

}  // namespace rondo

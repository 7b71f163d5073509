// A graph bound to memory: a tensor for every value at its planned address, created once, and the
// step as a list of instructions. A replay (replay.cpp) lets a device call or record them.
//
// Views are created here and cost nothing later. Copies of new state that is not at the state's
// address belong to the return node. Not thread-safe.
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

  // Calls the kernels. REQUIRES: the allocator hands out `placements()` for their requests.
  virtual void call() = 0;
  // Copies misplaced results to their addresses. Returns their number. REQUIRES: right
  // after call().
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

// The plan's arenas, which outlive the step.
struct StepMemory {
  c10::Device device = c10::kCPU;
  char* arena = nullptr;
  char* host = nullptr;
  SharedBatch* batch = nullptr;  // nullptr for a step with its own batch
};

class PlannedStep {
 public:
  // Throws Error(graph) for an unsupported op or collective, and for a state tensor that does
  // not match.
  PlannedStep(const ir::Graph& graph, const ir::MemoryPlan& plan, const StepMemory& memory,
              std::vector<at::Tensor> state);
  PlannedStep(const PlannedStep&) = delete;
  PlannedStep& operator=(const PlannedStep&) = delete;
  ~PlannedStep();

  // A run checks the inputs, copies the batch in, and calls each instruction in order. A batch in
  // pinned memory must stay valid until the copies are done.
  void copy_batch_in(const std::vector<at::Tensor>& batch);
  const std::vector<std::unique_ptr<Instruction>>& instructions() const { return instructions_; }
  // Returns the plain results in the function's order: the same tensors after every run.
  const std::vector<at::Tensor>& results() const { return results_; }

  const ir::Graph& graph() const { return graph_; }
  const ir::MemoryPlan& plan() const { return plan_; }
  std::int64_t views() const { return views_; }
  std::int64_t batch_bytes() const { return batch_bytes_; }  // copied in each run
  std::int64_t state_bytes() const { return state_bytes_; }  // copied by instructions in each run

 private:
  class Builder;

  ir::Graph graph_;
  InputContract contract_;
  ir::MemoryPlan plan_;
  // State of the instructions: the stack of calls, and the work of collectives in flight.
  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Instruction>> instructions_;
  std::vector<std::pair<std::size_t, at::Tensor>> batch_;  // input index, tensor
  std::vector<at::Tensor> results_;
  std::int64_t views_ = 0, batch_bytes_ = 0, state_bytes_ = 0;
};

}  // namespace rondo

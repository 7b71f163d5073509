// Plays a fixed plan: tensors, arguments and addresses are resolved once (planned_step.h), and a step is a list
// of boxed calls.
#include <ATen/core/LegacyTypeDispatch.h>

#include "compiler/execute/cpu_memory.h"
#include "compiler/execute/executor.h"
#include "compiler/execute/planned_step.h"
#include "compiler/ir/op_facts.h"
#include "compiler/plan/memory_plan.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

// What a replay knows of an instruction's temporaries.
struct Temporaries {
  // Free parts of the arena while the op runs. Found after the first run, for ops that want any and that keep
  // none of them.
  std::vector<std::span<char>> room;
  std::size_t heap_bytes = 0;  // of the latest run, that came from the heap
  bool keeps_memory = false;
};

class PlannedReplay final : public Replay {
 public:
  PlannedReplay(const ir::Graph& graph, const ir::MemoryPlan& plan, std::shared_ptr<ReplayMemory> memory,
                std::vector<Tensor> state)
      : memory_(std::move(memory)),
        step_(graph, plan, {c10::kCPU, memory_->arena.data(), memory_->host.data()}, std::move(state)),
        temporaries_(step_.instructions().size()) {
    facts_.instructions = static_cast<std::int64_t>(step_.instructions().size());
    facts_.views = step_.views();
    facts_.arena_bytes = plan.arena_bytes;
    facts_.host_bytes = plan.host_arena_bytes;
    facts_.copied_bytes = step_.batch_bytes() + step_.state_bytes();
  }

  std::vector<Tensor> run(const std::vector<Tensor>& batch) override {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    step_.copy_batch_in(batch);
    facts_.copied_results = 0;
    {
      const ObservedRun observed(step_.graph());
      for (std::size_t i = 0; i < temporaries_.size(); ++i) {
        observed.reached(step_.instructions()[i]->node());
        play(*step_.instructions()[i], temporaries_[i]);
      }
    }
    ++runs_;
    if (runs_ == 1) find_room();
    if (runs_ <= 2) count_heap();
    return step_.results();
  }

  const ReplayFacts& facts() const override { return facts_; }

 private:
  void play(Instruction& instruction, Temporaries& temporaries) {
    const std::int64_t live = runs_ == 0 ? cpu_memory::live_bytes() : 0;
    const std::int64_t blocks = memory_->arena.blocks();
    {
      const cpu_memory::Placement placement(instruction.placements(), temporaries.room);
      instruction.call();
      temporaries.heap_bytes = placement.heap_bytes();
    }
    facts_.copied_results += instruction.settle();
    if (runs_ == 0) temporaries.keeps_memory = cpu_memory::live_bytes() > live;
    if (!temporaries.room.empty()) check_released(instruction, blocks);
  }

  // Memory that the plan gives to the next op must not be held by a kernel: it would be overwritten behind
  // its back. Collectives in flight hold their workspaces, and a thread of their group may let go of one a
  // moment after its wait: the number of blocks may fall during a call, and must not rise.
  void check_released(const Instruction& instruction, std::int64_t blocks_before) const {
    if (memory_->arena.blocks() <= blocks_before) return;
    throw Error(ExitCode::graph,
                instruction.node().op + " (module \"" + instruction.node().module +
                    "\") kept temporary memory after it returned, which a replay cannot allow; use "
                    "compile.executor = \"interpreter\"");
  }

  // Collectives run on after their call: nothing is free for what they take.
  static bool is_op(const Instruction& instruction) {
    const ir::Effect effect = ir::facts(instruction.node().op).effect;
    return effect != ir::Effect::collective_start && effect != ir::Effect::wait;
  }

  // After the first run, which served temporaries from the heap: later ones go where the arena is free while
  // their op runs.
  void find_room() {
    for (std::size_t i = 0; i < temporaries_.size(); ++i) {
      Temporaries& temporaries = temporaries_[i];
      const Instruction& instruction = *step_.instructions()[i];
      if (!is_op(instruction) || temporaries.heap_bytes == 0 || temporaries.keeps_memory) continue;
      for (const ir::Gap& gap : ir::free_gaps(step_.graph(), step_.plan(), instruction.index()))
        temporaries.room.emplace_back(memory_->arena.data() + gap.offset,
                                      static_cast<std::size_t>(gap.bytes));
    }
  }

  void count_heap() {
    facts_.heap_bytes = 0;
    for (std::size_t i = 0; i < temporaries_.size(); ++i) {
      const Instruction& instruction = *step_.instructions()[i];
      const auto bytes = static_cast<std::int64_t>(temporaries_[i].heap_bytes);
      if (!is_op(instruction) || bytes <= facts_.heap_bytes) continue;
      facts_.heap_bytes = bytes;
      facts_.largest_workspace_op = instruction.node().op;
    }
  }

  std::shared_ptr<ReplayMemory> memory_;
  PlannedStep step_;
  std::vector<Temporaries> temporaries_;  // of each instruction
  std::int64_t runs_ = 0;
  ReplayFacts facts_;
};

}  // namespace

std::unique_ptr<Replay> make_replay(const ir::Graph& graph, const ir::MemoryPlan& plan,
                                    std::shared_ptr<ReplayMemory> memory, std::vector<Tensor> state) {
  return std::make_unique<PlannedReplay>(graph, plan, std::move(memory), std::move(state));
}

}  // namespace rondo

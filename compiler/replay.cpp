// Plays a fixed plan: tensors, arguments and addresses are resolved once, and a step is a list of boxed
// calls.
//
// Every value has its place in one arena (memory_plan.h) and one tensor over it, made here; views are made
// here too and cost nothing later. An op is called in its ordinary form, and the allocator hands it the
// planned address for its result (Note [Placing results]). Collectives are called on their group directly,
// with the planned tensors as buffers.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "compiler/boxed_node.h"
#include "compiler/cpu_memory.h"
#include "compiler/executor.h"
#include "compiler/input_contract.h"
#include "compiler/memory_plan.h"
#include "compiler/op_facts.h"
#include "parallel/error.h"

namespace rondo {
namespace {

using at::Tensor;
using torch::jit::Stack;

struct OpCall {
  BoxedNode op;
  Stack arguments;
  std::vector<Tensor> results;                       // those that the op allocates
  std::vector<cpu_memory::PlacedResult> placements;  // of the results that take memory
  // Free parts of the arena while this op runs, for its temporaries. Found after the first run, for ops that
  // want any and that keep none of them.
  std::size_t node = 0;
  std::vector<std::span<char>> room;
  std::size_t heap_bytes = 0;  // temporaries of the latest run that came from the heap
  bool keeps_memory = false;
};

enum class Collective { all_gather, reduce_scatter, all_reduce };
struct CollectiveStart {
  Collective kind;
  c10::intrusive_ptr<c10d::Backend> backend;
  Tensor input, output;
  c10d::ReduceOp reduction;
  std::size_t work_slot;
  std::vector<cpu_memory::PlacedResult> workspace;  // planned memory for what the collective itself allocates
};
struct CollectiveWait {
  std::size_t work_slot;
};
using Instruction = std::variant<OpCall, CollectiveStart, CollectiveWait>;

c10::intrusive_ptr<c10d::Backend> backend_of(const std::string& group) {
  return c10d::resolve_process_group(group)->getBackend(c10::DeviceType::CPU);
}

std::optional<c10d::ReduceOp> reduction_named(const std::string& name) {
  if (name == "sum") return c10d::ReduceOp::SUM;
  if (name == "max") return c10d::ReduceOp::MAX;
  return std::nullopt;
}

class PlannedReplay final : public Replay {
 public:
  PlannedReplay(const ir::Graph& graph, const ir::MemoryPlan& plan, std::shared_ptr<ReplayMemory> memory,
                std::vector<Tensor> state)
      : graph_(graph),
        contract_(expected_inputs(graph), std::move(state)),
        plan_(plan),
        memory_(std::move(memory)),
        tensors_(graph.values.size()) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    bind_inputs();
    for (std::size_t i = 0; i + 1 < graph_.nodes.size(); ++i) build(i);
    bind_outputs();
    facts_.instructions = static_cast<std::int64_t>(instructions_.size());
    facts_.arena_bytes = plan.arena_bytes;
    facts_.host_bytes = plan.host_arena_bytes;
  }

  std::vector<Tensor> run(const std::vector<Tensor>& batch) override {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    copy_batch_in(contract_.check(batch));
    facts_.copied_results = 0;
    for (Instruction& instruction : instructions_) std::visit([this](auto& i) { play(i); }, instruction);
    for (auto& [state, value] : state_copies_) state.copy_(value);
    ++runs_;
    if (runs_ == 1) find_room();
    if (runs_ <= 2) count_heap();
    return results_;
  }

  const ReplayFacts& facts() const override { return facts_; }

 private:
  Tensor& tensor(ir::ValueId id) { return tensors_[static_cast<std::size_t>(id)]; }

  void bind_inputs() {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const ir::Input& input = graph_.inputs[i];
      if (input.kind != ir::InputKind::batch) {
        tensor(input.value) = contract_.state_of(i).detach();
        continue;
      }
      const ir::TensorType& type = graph_.value(input.value).type;
      tensor(input.value) = at::empty_strided(type.sizes, type.strides, to_aten(type.dtype));
      batch_inputs_.push_back(i);
      facts_.copied_bytes += ir::storage_bytes(type);
    }
  }

  void bind_outputs() {
    const std::vector<ir::Output>& outputs = graph_.outputs;
    std::size_t i = 0;
    ir::for_each_operand(graph_.return_node(), [&](ir::ValueId id) {
      const ir::Output& output = outputs[i++];
      if (output.updates < 0) {
        results_.push_back(tensor(id));
        return;
      }
      const Tensor state = contract_.state_of(static_cast<std::size_t>(output.updates)).detach();
      if (state.const_data_ptr() == tensor(id).const_data_ptr()) return;
      state_copies_.emplace_back(state, tensor(id));
      facts_.copied_bytes += ir::storage_bytes(graph_.value(id).type);
    });
  }

  void copy_batch_in(const std::vector<Tensor>& inputs) {
    for (std::size_t i : batch_inputs_) tensor(graph_.inputs[i].value).copy_(inputs[i]);
  }

  void build(std::size_t index) {
    const ir::Node& node = graph_.nodes[index];
    const ir::OpFacts& op = ir::facts(node.op);
    if (op.effect == ir::Effect::wait) return build_wait(node);
    if (is_view(node)) return build_views(node);
    for (ir::ValueId id : node.results) tensor(id) = planned_tensor(id);
    if (op.effect == ir::Effect::collective_start) {
      build_start(index);
    } else {
      build_call(index);
    }
  }

  bool is_view(const ir::Node& node) const {
    for (ir::ValueId id : node.results)
      if (graph_.value(id).views == ir::kNoValue) return false;
    return !node.results.empty();
  }

  // Views are made once, by the op itself, over the planned memory of their base.
  void build_views(const ir::Node& node) {
    const BoxedNode op(node);
    Stack stack;
    op.push(stack, [&](ir::ValueId id) { return tensor(id); });
    op.call(stack);
    const std::vector<Tensor> made = flatten_results(stack);
    RONDO_ASSERT(made.size() == node.results.size(),
                 node.op + " returned another number of views than its node has");
    for (std::size_t i = 0; i < made.size(); ++i) {
      check_type(node, node.results[i], made[i]);
      tensor(node.results[i]) = made[i];
      ++facts_.views;
    }
  }

  Tensor planned_tensor(ir::ValueId id) {
    const ir::Value& value = graph_.value(id);
    if (value.writes != ir::kNoValue) return tensor(value.writes);
    const auto options = at::TensorOptions().dtype(to_aten(value.type.dtype));
    const std::int64_t offset = plan_.offsets[static_cast<std::size_t>(id)];
    if (offset < 0) return at::empty_strided(value.type.sizes, value.type.strides, options);  // no elements
    char* base = value.on_host ? memory_->host.data() : memory_->arena.data();
    return at::from_blob(base + offset, value.type.sizes, value.type.strides, options);
  }

  void build_call(std::size_t index) {
    const ir::Node& node = graph_.nodes[index];
    OpCall call{
        .op = BoxedNode(node), .arguments = {}, .results = {}, .placements = {}, .node = index, .room = {}};
    call.op.push(call.arguments, [&](ir::ValueId id) { return tensor(id); });
    for (ir::ValueId id : node.results) {
      const ir::Value& value = graph_.value(id);
      if (value.writes != ir::kNoValue) continue;
      call.results.push_back(tensor(id));
      const auto bytes = static_cast<std::size_t>(ir::storage_bytes(value.type));
      if (bytes > 0) call.placements.push_back({tensor(id).mutable_data_ptr(), bytes});
    }
    instructions_.emplace_back(std::move(call));
  }

  void build_start(std::size_t index) {
    const ir::Node& node = graph_.nodes[index];
    const auto operand = [&](std::size_t i) { return tensor(std::get<ir::Use>(node.args[i]).value); };
    const auto text = [&](std::size_t i) { return std::get<std::string>(node.args[i]); };
    CollectiveStart start{Collective::all_gather,     {}, operand(0),
                          tensor(node.results.at(0)), {}, works_.size(),
                          workspaces_of(index)};
    bool known = true;
    const auto reduces = [&](Collective kind, std::size_t group) {
      const auto reduction = reduction_named(text(1));
      known = reduction.has_value();
      start.kind = kind;
      start.reduction = reduction.value_or(c10d::ReduceOp::SUM);
      start.backend = backend_of(text(group));
    };
    if (node.op == "_c10d_functional.all_gather_into_tensor.default") {
      start.backend = backend_of(text(2));
    } else if (node.op == "_c10d_functional.reduce_scatter_tensor.default") {
      reduces(Collective::reduce_scatter, 3);
    } else if (node.op == "_c10d_functional.all_reduce.default") {
      reduces(Collective::all_reduce, 2);
    } else {
      known = false;
    }
    if (!known)
      throw Error(ExitCode::graph,
                  "the replay cannot play collective " + node.op + " (module \"" + node.module + "\")");
    started_[node.results.at(0)] = works_.size();
    works_.emplace_back();
    instructions_.emplace_back(std::move(start));
  }

  std::vector<cpu_memory::PlacedResult> workspaces_of(std::size_t start) const {
    std::vector<cpu_memory::PlacedResult> found;
    for (const ir::Workspace& workspace : plan_.workspaces)
      if (static_cast<std::size_t>(workspace.start) == start)
        found.push_back(
            {memory_->arena.data() + workspace.offset, static_cast<std::size_t>(workspace.bytes)});
    return found;
  }

  void build_wait(const ir::Node& node) {
    const ir::ValueId started = std::get<ir::Use>(node.args.at(0)).value;
    tensor(node.results.at(0)) = tensor(started);
    if (const auto work = started_.find(started);
        work != started_.end())  // on the CPU a transfer is done at once
      instructions_.emplace_back(CollectiveWait{work->second});
  }

  void check_type(const ir::Node& node, ir::ValueId id, const Tensor& made) const {
    const ir::TensorType& type = graph_.value(id).type;
    if (made.sizes() == type.sizes && made.strides() == type.strides &&
        made.scalar_type() == to_aten(type.dtype))
      return;
    throw Error(ExitCode::graph, node.op + " (module \"" + node.module +
                                     "\") returned a tensor of another shape, strides or "
                                     "dtype than its shape rule said when the step was traced");
  }

  void play(OpCall& call) {
    stack_.assign(call.arguments.begin(), call.arguments.end());
    const std::int64_t live = runs_ == 0 ? cpu_memory::live_bytes() : 0;
    const std::int64_t blocks = memory_->arena.blocks();
    {
      const cpu_memory::Placement placement(call.placements, call.room);
      call.op.call(stack_);
      call.heap_bytes = placement.heap_bytes();
    }
    if (!call.results.empty()) settle(call);
    stack_.clear();
    if (runs_ == 0) call.keeps_memory = cpu_memory::live_bytes() > live;
    if (!call.room.empty()) check_released(call, blocks);
  }

  // Memory that the plan gives to the next op must not be held by a kernel: it would be overwritten behind
  // its back. Collectives in flight hold their workspaces, and a thread of their group may let go of one a
  // moment after its wait: the number of blocks may fall during a call, and must not rise.
  void check_released(const OpCall& call, std::int64_t blocks_before) const {
    if (memory_->arena.blocks() <= blocks_before) return;
    throw Error(ExitCode::graph,
                call.op.node().op + " (module \"" + call.op.node().module +
                    "\") kept temporary memory after it returned, which a replay cannot allow; use "
                    "compile.executor = \"interpreter\"");
  }

  // After the first run, which served temporaries from the heap: later ones go where the arena is free while
  // their op runs.
  void find_room() {
    for (Instruction& instruction : instructions_) {
      auto* call = std::get_if<OpCall>(&instruction);
      if (call == nullptr || call->heap_bytes == 0 || call->keeps_memory) continue;
      for (const ir::Gap& gap : ir::free_gaps(graph_, plan_, call->node))
        call->room.emplace_back(memory_->arena.data() + gap.offset, static_cast<std::size_t>(gap.bytes));
    }
  }

  void count_heap() {
    facts_.heap_bytes = 0;
    for (const Instruction& instruction : instructions_) {
      const auto* call = std::get_if<OpCall>(&instruction);
      if (call == nullptr || static_cast<std::int64_t>(call->heap_bytes) <= facts_.heap_bytes) continue;
      facts_.heap_bytes = static_cast<std::int64_t>(call->heap_bytes);
      facts_.hungriest_op = call->op.node().op;
    }
  }

  // Most results already stand where they were planned; the others are copied there.
  void settle(OpCall& call) {
    std::size_t next = 0;
    const auto settle_one = [&](const Tensor& made) {
      const Tensor& planned = call.results[next];
      if (runs_ == 0) check_type(call.op.node(), call.op.node().results[next], made);
      ++next;
      if (made.const_data_ptr() == planned.const_data_ptr()) return;
      planned.copy_(made);
      ++facts_.copied_results;
    };
    for (const c10::IValue& value : stack_) {
      if (value.isTensor()) {
        settle_one(value.toTensor());
      } else if (value.isTensorList()) {
        for (const Tensor& made : value.toTensorVector()) settle_one(made);
      }
    }
  }

  void play(CollectiveStart& start) {
    c10::intrusive_ptr<c10d::Work>& work = works_[start.work_slot];
    const cpu_memory::Placement placement(start.workspace, {});
    switch (start.kind) {
      case Collective::all_gather:
        work = start.backend->_allgather_base(start.output, start.input);
        break;
      case Collective::reduce_scatter:
        work = start.backend->_reduce_scatter_base(start.output, start.input, {.reduceOp = start.reduction});
        break;
      case Collective::all_reduce: {
        start.output.copy_(start.input);
        std::vector<Tensor> tensors{start.output};
        work = start.backend->allreduce(tensors, {.reduceOp = start.reduction});
        break;
      }
    }
  }
  void play(CollectiveWait& wait) {
    works_[wait.work_slot]->wait();
    works_[wait.work_slot].reset();
  }

  ir::Graph graph_;
  InputContract contract_;
  ir::MemoryPlan plan_;
  std::shared_ptr<ReplayMemory> memory_;
  std::vector<Tensor> tensors_;  // of every value, over its planned memory
  std::vector<Instruction> instructions_;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  std::unordered_map<ir::ValueId, std::size_t> started_;
  std::vector<std::size_t> batch_inputs_;
  std::vector<std::pair<Tensor, Tensor>> state_copies_;
  std::vector<Tensor> results_;
  Stack stack_;
  std::int64_t runs_ = 0;
  ReplayFacts facts_;
};

}  // namespace

std::unique_ptr<Replay> make_replay(const ir::Graph& graph, const ir::MemoryPlan& plan,
                                    std::shared_ptr<ReplayMemory> memory, std::vector<Tensor> state) {
  return std::make_unique<PlannedReplay>(graph, plan, std::move(memory), std::move(state));
}

}  // namespace rondo

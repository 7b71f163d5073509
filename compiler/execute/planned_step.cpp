// Calls collectives on their group with planned tensors as buffers, and other ops in their ordinary
// form with results placed by the allocator (placed_results.h, Note [Placing results]).
#include "compiler/execute/planned_step.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <optional>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <unordered_map>

#include "compiler/execute/boxed_node.h"
#include "compiler/execute/cpu_memory.h"
#include "compiler/ops/op.h"
#include "compiler/trace/step_function.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using torch::jit::Stack;
using Work = c10::intrusive_ptr<c10d::Work>;

void check_type(const ir::Node& node, const ir::TensorType& type, const Tensor& result) {
  if (result.sizes() == type.sizes && result.strides() == type.strides &&
      result.scalar_type() == to_aten(type.dtype))
    return;
  throw Error(ExitCode::graph, node.op + " (module \"" + node.module + "\") returned a tensor with other " +
                                   "shape, strides or dtype than its shape rule in the trace");
}

class OpCall final : public Instruction {
 public:
  struct Result {  // a result that the op allocates
    Tensor planned;
    ir::TensorType type;
  };
  OpCall(std::size_t index, const ir::Node& node, BoxedNode op, Stack arguments, std::vector<Result> results,
         Stack& stack)
      : Instruction(index, node),
        op_(std::move(op)),
        arguments_(std::move(arguments)),
        results_(std::move(results)),
        stack_(stack) {
    for (const Result& result : results_)
      if (const auto bytes = static_cast<std::size_t>(ir::storage_bytes(result.type));
          bytes > 0 && (!result.planned.is_cpu() || cpu_memory::is_in_arena(result.planned.const_data_ptr())))
        placements_.push_back({result.planned.mutable_data_ptr(), bytes});
  }

  void call() override {
    stack_.assign(arguments_.begin(), arguments_.end());
    op_.call(stack_);
  }

  // Most results are already at their planned address; the others are copied there.
  std::int64_t settle() override {
    std::size_t next = 0;
    const auto settle_one = [&](const Tensor& out) {
      if (next == results_.size()) return;  // an op that overwrites returns its operands
      const Result& result = results_[next++];
      if (!checked_) {
        check_type(node(), result.type, out);
        check_device(node(), out, result.planned.device());
      }
      if (out.const_data_ptr() != result.planned.const_data_ptr()) misplaced_.push_back({&result, out});
    };
    for (const c10::IValue& value : stack_) {
      if (value.isTensor()) {
        settle_one(value.toTensor());
      } else if (value.isTensorList()) {
        for (const Tensor& tensor : value.toTensorVector()) settle_one(tensor);
      }
    }
    stack_.clear();
    checked_ = true;
    if (misplaced_.empty()) return 0;
    learn_order();
    const auto copied = std::ssize(misplaced_);
    copy_misplaced();
    misplaced_.clear();
    return copied;
  }

 private:
  struct Misplaced {
    const Result* result;
    Tensor tensor;
  };

  // Adapts to a kernel that requests results of one size in another order than it returns them.
  void learn_order() {
    std::vector<PlacedResult> in_order = placements_;
    for (const Misplaced& misplaced : misplaced_)
      for (std::size_t i = 0; i < in_order.size(); ++i)
        if (placements_[i].address == misplaced.tensor.const_data_ptr())
          in_order[i].address = misplaced.result->planned.mutable_data_ptr();
    if (std::is_permutation(in_order.begin(), in_order.end(), placements_.begin()))
      placements_ = std::move(in_order);
  }

  // Copies results to their planned addresses. Clones a result before its memory is overwritten.
  void copy_misplaced() {
    for (std::size_t i = 0; i < misplaced_.size(); ++i) {
      const Tensor& planned = misplaced_[i].result->planned;
      for (std::size_t k = i + 1; k < misplaced_.size(); ++k)
        if (share_bytes(misplaced_[k].tensor, planned)) misplaced_[k].tensor = misplaced_[k].tensor.clone();
      planned.copy_(misplaced_[i].tensor);
    }
  }

  static bool share_bytes(const Tensor& a, const Tensor& b) {
    const auto begin = [](const Tensor& t) { return static_cast<const char*>(t.storage().data()); };
    return begin(a) < begin(b) + b.storage().nbytes() && begin(b) < begin(a) + a.storage().nbytes();
  }

  BoxedNode op_;
  Stack arguments_;
  std::vector<Result> results_;
  std::vector<Misplaced> misplaced_;  // in the latest call
  Stack& stack_;
  bool checked_ = false;  // the types of the first call's results
};

std::optional<c10d::ReduceOp> reduction_named(std::string_view name) {
  if (name == "sum") return c10d::ReduceOp::SUM;
  return name == "max" ? std::optional<c10d::ReduceOp>(c10d::ReduceOp::MAX) : std::nullopt;
}

class CollectiveStart final : public Instruction {
  using Kind = ir::CollectiveKind;

 public:
  CollectiveStart(std::size_t index, const ir::Node& node, Tensor input, Tensor output,
                  std::vector<PlacedResult> workspace, c10::DeviceType device, Work& work)
      : Instruction(index, node), input_(std::move(input)), output_(std::move(output)), work_(work) {
    placements_ = std::move(workspace);
    const ir::Collective c = *ir::collective_of(node);
    kind_ = c.kind;
    const bool moves = kind_ == Kind::all_gather || ir::sends_equal_pieces(node);
    const auto reduction = moves ? c10d::ReduceOp::SUM : reduction_named(c.reduction);
    if (!reduction || (!moves && kind_ != Kind::reduce_scatter && kind_ != Kind::all_reduce))
      throw Error(ExitCode::graph,
                  "the replay does not support collective " + node.op + " (module \"" + node.module + "\")");
    reduction_ = *reduction;
    backend_ = c10d::resolve_process_group(std::string(c.group))->getBackend(device);
  }

  void call() override {
    switch (kind_) {
      case Kind::all_gather:
        work_ = backend_->_allgather_base(output_, input_);
        break;
      case Kind::reduce_scatter:
        work_ = backend_->_reduce_scatter_base(output_, input_, {.reduceOp = reduction_});
        break;
      case Kind::all_reduce: {
        output_.copy_(input_);
        std::vector<Tensor> tensors{output_};
        work_ = backend_->allreduce(tensors, {.reduceOp = reduction_});
        break;
      }
      case Kind::all_to_all:
        work_ = backend_->alltoall_base(output_, input_, equal_, equal_);
        break;
      case Kind::broadcast:  // refused by the constructor
        break;
    }
  }

 private:
  Kind kind_ = Kind::all_gather;
  std::vector<std::int64_t> equal_;  // empty: equal splits
  c10d::ReduceOp reduction_ = c10d::ReduceOp::SUM;
  c10::intrusive_ptr<c10d::Backend> backend_;
  Tensor input_, output_;
  Work& work_;
};

class CollectiveWait final : public Instruction {
 public:
  CollectiveWait(std::size_t index, const ir::Node& node, Work& work)
      : Instruction(index, node), work_(work) {}
  void call() override {
    work_->wait();
    work_.reset();
  }

 private:
  Work& work_;
};

// One end of a copy between device and host memory, asynchronous where the device supports it.
class Transfer final : public Instruction {
 public:
  enum class End { start, end };
  Transfer(std::size_t index, const ir::Node& node, End end, Tensor to, Tensor from)
      : Instruction(index, node),
        op_(c10::Dispatcher::singleton().findSchemaOrThrow(
            end == End::start ? "rondo::start_transfer" : "rondo::end_transfer", "")),
        arguments_{std::move(to), std::move(from)} {}
  void call() override {
    Stack stack = arguments_;
    op_.callBoxed(stack);
  }

 private:
  c10::OperatorHandle op_;
  Stack arguments_;
};

// Copies new state that is not at the state's address.
class StateCopy final : public Instruction {
 public:
  StateCopy(std::size_t index, const ir::Node& node, Tensor state, Tensor value)
      : Instruction(index, node), state_(std::move(state)), value_(std::move(value)) {}
  void call() override { state_.copy_(value_, /*non_blocking=*/true); }

 private:
  Tensor state_, value_;
};

}  // namespace

struct PlannedStep::Shared {
  Stack stack;
  std::vector<Work> works;  // one per node, so that references stay valid
};

class PlannedStep::Builder {
 public:
  Builder(PlannedStep& step, const StepMemory& memory)
      : step_(step), graph_(step.graph_), memory_(memory), tensors_(graph_.values.size()) {}

  void build() {
    step_.shared_->works.resize(graph_.nodes.size());
    bind_inputs();
    for (std::size_t i = 0; i + 1 < graph_.nodes.size(); ++i) build(i);
    bind_outputs();
  }

 private:
  Tensor& tensor(ir::ValueId id) { return tensors_[id]; }

  template <class T, class... Arguments>
  void add(std::size_t index, Arguments&&... arguments) {
    step_.instructions_.push_back(
        std::make_unique<T>(index, graph_.nodes[index], std::forward<Arguments>(arguments)...));
  }

  at::TensorOptions options(const ir::TensorType& type) const {
    return at::TensorOptions().device(memory_.device).dtype(to_aten(type.dtype));
  }

  void bind_inputs() {
    SharedBatch own;
    SharedBatch& batch = memory_.batch != nullptr ? *memory_.batch : own;
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const ir::Input& input = graph_.inputs[i];
      if (input.kind != ir::InputKind::batch) {
        tensor(input.value) = step_.contract_.state_of(i).detach();
        continue;
      }
      const ir::TensorType& type = graph_.value(input.value).type;
      tensor(input.value) = batch.place(input.name, type, memory_.device);
      step_.batch_.emplace_back(i, tensor(input.value));
      step_.batch_bytes_ += ir::storage_bytes(type);
    }
  }

  void bind_outputs() {
    std::size_t i = 0;
    ir::for_each_operand(graph_.return_node(), [&](ir::ValueId id) {
      const ir::Output& output = graph_.outputs[i++];
      if (output.updates < 0) {
        step_.results_.push_back(tensor(id));
        return;
      }
      const Tensor state = step_.contract_.state_of(static_cast<std::size_t>(output.updates)).detach();
      if (state.const_data_ptr() == tensor(id).const_data_ptr()) return;
      add<StateCopy>(graph_.nodes.size() - 1, state, tensor(id));
      step_.state_bytes_ += ir::storage_bytes(graph_.value(id).type);
    });
  }

  void build(std::size_t index) {
    const ir::Node& node = graph_.nodes[index];
    const ir::Effect effect = ir::facts(node.op).effect;
    if (effect == ir::Effect::wait) return build_wait(index);
    if (is_view(node)) return build_views(node);
    for (ir::ValueId id : node.results) tensor(id) = planned_tensor(id);
    if (effect == ir::Effect::collective_start) {
      started_[node.results.at(0)] = index;
      add<CollectiveStart>(index, tensor(ir::operand(node, 0)), tensor(node.results.at(0)),
                           workspaces_of(index), memory_.device.type(), step_.shared_->works[index]);
    } else if (effect == ir::Effect::transfer_start) {
      const Tensor& from = tensor(ir::operand(node, 0));
      sources_[node.results.at(0)] = from;
      add<Transfer>(index, Transfer::End::start, tensor(node.results.at(0)), from);
    } else {
      build_call(index);
    }
  }

  bool is_view(const ir::Node& node) const {
    for (ir::ValueId id : node.results)
      if (graph_.value(id).views == ir::kNoValue) return false;
    return !node.results.empty();
  }

  // Creates views by the op itself, over the planned memory of their base.
  void build_views(const ir::Node& node) {
    const BoxedNode op(node, memory_.device);
    Stack stack;
    op.push(stack, [&](ir::ValueId id) { return tensor(id); });
    op.call(stack);
    const std::vector<Tensor> views = flatten_results(stack);
    RONDO_ASSERT(views.size() == node.results.size(),
                 node.op + " returned a different number of views than its node has");
    for (std::size_t i = 0; i < views.size(); ++i) {
      check_type(node, graph_.value(node.results[i]).type, views[i]);
      tensor(node.results[i]) = views[i];
      ++step_.views_;
    }
  }

  Tensor planned_tensor(ir::ValueId id) {
    const ir::Value& value = graph_.value(id);
    if (value.writes != ir::kNoValue) return tensor(value.writes);
    const std::int64_t offset = step_.plan_.offsets[id];
    const ir::TensorType& type = value.type;
    const at::TensorOptions where = value.on_host ? options(type).device(c10::kCPU) : options(type);
    if (const std::int32_t input = step_.plan_.inputs[id]; input >= 0)
      return at::from_blob(step_.contract_.state_of(static_cast<std::size_t>(input)).mutable_data_ptr(),
                           type.sizes, type.strides, where);
    if (offset < 0) return at::empty_strided(type.sizes, type.strides, where);  // no elements
    char* base = value.on_host ? memory_.host : memory_.arena;
    return at::from_blob(base + offset, type.sizes, type.strides, where);
  }

  void build_call(std::size_t index) {
    const ir::Node& node = graph_.nodes[index];
    BoxedNode op(node, memory_.device);
    Stack arguments;
    op.push(arguments, [&](ir::ValueId id) { return tensor(id); });
    std::vector<OpCall::Result> results;
    for (ir::ValueId id : node.results)
      if (graph_.value(id).writes == ir::kNoValue) results.push_back({tensor(id), graph_.value(id).type});
    add<OpCall>(index, std::move(op), std::move(arguments), std::move(results), step_.shared_->stack);
  }

  std::vector<PlacedResult> workspaces_of(std::size_t start) const {
    std::vector<PlacedResult> workspaces;
    for (const ir::Workspace& workspace : step_.plan_.workspaces)
      if (static_cast<std::size_t>(workspace.start) == start)
        workspaces.push_back({memory_.arena + workspace.offset, static_cast<std::size_t>(workspace.bytes)});
    return workspaces;
  }

  void build_wait(std::size_t index) {
    const ir::ValueId started = ir::operand(graph_.nodes[index], 0);
    tensor(graph_.nodes[index].results.at(0)) = tensor(started);
    if (const auto start = started_.find(started); start != started_.end())
      add<CollectiveWait>(index, step_.shared_->works[start->second]);
    else if (memory_.device.type() != c10::kCPU)  // on the CPU, the start has done the transfer
      add<Transfer>(index, Transfer::End::end, tensor(started), sources_.at(started));
  }

  PlannedStep& step_;
  const ir::Graph& graph_;
  const StepMemory memory_;
  ir::IdMap<Tensor> tensors_;                             // by value, over its planned memory
  std::unordered_map<ir::ValueId, std::size_t> started_;  // by result: the start of the collective
  std::unordered_map<ir::ValueId, Tensor> sources_;       // by result: the source of the transfer
};

PlannedStep::PlannedStep(const ir::Graph& graph, const ir::MemoryPlan& plan, const StepMemory& memory,
                         std::vector<Tensor> state)
    : graph_(graph),
      contract_(expected_inputs(graph), std::move(state), memory.device),
      plan_(plan),
      shared_(std::make_unique<Shared>()) {
  if (contract_.device() != memory.device)
    throw Error(ExitCode::graph, "the state of " + graph_.name + " is on " + contract_.device().str() +
                                     ", but the memory of its plan is on " + memory.device.str());
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Builder(*this, memory).build();
}

PlannedStep::~PlannedStep() = default;
void PlannedStep::copy_batch_in(const std::vector<Tensor>& batch) {
  const std::vector<Tensor> inputs = contract_.check(batch);
  for (auto& [index, tensor] : batch_) tensor.copy_(inputs[index], /*non_blocking=*/true);
}

}  // namespace rondo

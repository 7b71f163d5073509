// Note [How a trace works] The dispatcher tries Autograd, ADInplaceOrView, Functionalize, then
// Fake, then CPU. LibTorch itself does not use the key Fake. The interceptor at this key
// (ops/dispatch/op_interceptor.h) sees every op of forward and backward with its schema and
// arguments. Inputs are FakeTensors, which claim to be on the CPU but own no memory. They are
// wrapped in functional tensors, so that in-place ops arrive in their functional form. The fallback
// swaps in meta tensors and calls the op again. The Meta kernel is the shape rule, and storage
// shared between meta tensors identifies views. Fakes always say "cpu": with "cuda" the autograd
// engine would request a stream. The graph does not depend on the device.
#include "compiler/trace/tracer.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "ops/dispatch/op_interceptor.h"
#include "support/error.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

// A tensor without memory. `meta` has shape, strides and dtype, and `id` is its value in the graph
// being traced.
class FakeTensor final : public c10::TensorImpl {
 public:
  FakeTensor(Tensor meta_tensor, ir::ValueId value)
      : c10::TensorImpl(c10::Storage(c10::Storage::use_byte_size_t(), meta_tensor.storage().nbytes(),
                                     c10::DataPtr(nullptr, c10::kCPU)),
                        c10::DispatchKeySet{c10::DispatchKey::Fake, c10::DispatchKey::CPU,
                                            c10::DispatchKey::AutogradCPU, c10::DispatchKey::ADInplaceOrView},
                        meta_tensor.dtype()),
        meta(std::move(meta_tensor)),
        id(value) {
    set_sizes_and_strides(meta.sizes(), meta.strides(), meta.storage_offset());
    if (meta.unsafeGetTensorImpl()->is_wrapped_number()) set_wrapped_number(true);
  }

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                              bool allow_change) const override {
    return copy(c10::VariableVersion(version), allow_change);
  }
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                              bool allow_change) const override {
    return copy(std::move(version), allow_change);
  }

  const Tensor meta;
  const ir::ValueId id;

 private:
  c10::intrusive_ptr<c10::TensorImpl> copy(c10::VariableVersion&& version, bool allow_change) const {
    auto result = c10::make_intrusive<FakeTensor>(meta, id);
    result->set_version_counter(std::move(version));
    result->set_allow_tensor_metadata_change(allow_change);
    return result;
  }
};

const FakeTensor* as_fake(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.key_set().has(c10::DispatchKey::Fake)) return nullptr;
  return static_cast<const FakeTensor*>(tensor.unsafeGetTensorImpl());
}

Tensor meta_like(const ir::TensorType& type) {
  return at::empty_strided(type.sizes, type.strides,
                           at::TensorOptions().device(at::kMeta).dtype(to_aten(type.dtype)));
}

// Records the blocks and the module of each backward node from the open scopes. Autograd numbers
// its nodes during the forward. So a backward node belongs to the module that was open when its
// number was assigned.
class ModuleHistory final : public ScopeObserver {
 public:
  explicit ModuleHistory(ir::Graph& graph) : graph_(graph) {
    module_changed(module_path());
    set_scope_observer(this);
  }
  ~ModuleHistory() { set_scope_observer(nullptr); }

  void module_changed(const std::string& path) override {
    const std::uint64_t next = at::sequence_number::peek();
    if (!entries_.empty() && entries_.back().from == next) {
      entries_.back().path = path;
    } else {
      entries_.push_back({next, path});
    }
  }
  void block_opened(const std::string& path) override {
    if (std::find(graph_.blocks.begin(), graph_.blocks.end(), path) == graph_.blocks.end())
      graph_.blocks.push_back(path);
  }
  const std::string& owner(std::uint64_t number) const {
    const auto after = std::upper_bound(entries_.begin(), entries_.end(), number,
                                        [](std::uint64_t n, const Entry& entry) { return n < entry.from; });
    return after == entries_.begin() ? entries_.front().path : std::prev(after)->path;
  }

 private:
  struct Entry {
    std::uint64_t from;
    std::string path;
  };
  ir::Graph& graph_;  // receives the blocks
  std::vector<Entry> entries_;
};

class Recorder final : public OpInterceptor {
 public:
  explicit Recorder(std::string name) : history_(graph) { graph.name = std::move(name); }

  Tensor add_input(const StepInput& input) {
    const ir::ValueId id = graph.add_value({input.type, ir::kNoValue, ir::kNoValue});
    graph.inputs.push_back({input.name, input.kind, id, input.bucket, input.sharding});
    return Tensor(c10::make_intrusive<FakeTensor>(meta_like(input.type), id));
  }
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override;

  ir::Graph graph;  // before history_, which writes to it

 private:
  ir::Argument argument(const IValue& value, const c10::Argument& declared, const ir::Node& node);
  ir::Argument tensor_argument(const Tensor& tensor, const ir::Node& node);
  ir::ValueId list_item(const Tensor& tensor, const ir::Node& node);
  void run_shape_rule(const c10::OperatorHandle& op, const ir::Node& node, Stack* stack);
  Tensor wrap_result(const Tensor& meta, ir::Node& node);
  [[noreturn]] void refuse(const ir::Node& node, const std::string& reason) const;
  void place(ir::Node& node) const;

  ModuleHistory history_;
  // The storages that the current node reads, each with its first operand. A result in one of them
  // is a view of that operand.
  std::unordered_map<const c10::StorageImpl*, ir::ValueId> operands_;
};

void Recorder::refuse(const ir::Node& node, const std::string& reason) const {
  throw Error(ExitCode::graph, "cannot trace " + node.op + " in module \"" + node.module + "\" (" +
                                   phase_name(node.phase) + "): " + reason);
}

void Recorder::place(ir::Node& node) const {
  const auto autograd_node = torch::autograd::get_current_node();
  node.phase = current_phase();
  // In a nested forward of the backward (recomputation), the open scope is more exact than
  // the number.
  node.module =
      autograd_node && module_path().empty() ? history_.owner(autograd_node->sequence_nr()) : module_path();
}

ir::Argument Recorder::tensor_argument(const Tensor& tensor, const ir::Node& node) {
  if (!tensor.defined()) return ir::None{};
  if (const FakeTensor* fake = as_fake(tensor)) {
    operands_.emplace(fake->meta.storage().unsafeGetStorageImpl(), fake->id);
    return ir::Use{fake->id};
  }
  if (tensor.dim() != 0 || !tensor.unsafeGetTensorImpl()->is_wrapped_number())
    refuse(node,
           "it reads a constant tensor that is not an input of the step; pass it as a buffer or a batch "
           "input");
  switch (tensor.scalar_type()) {
    case at::kBool:
      return ir::WrappedNumber{*tensor.const_data_ptr<bool>()};
    case at::kLong:
      return ir::WrappedNumber{*tensor.const_data_ptr<std::int64_t>()};
    case at::kDouble:
      return ir::WrappedNumber{*tensor.const_data_ptr<double>()};
    default:
      refuse(node, "it reads a wrapped number of an unexpected dtype");
  }
}

ir::ValueId Recorder::list_item(const Tensor& tensor, const ir::Node& node) {
  if (!tensor.defined()) return ir::kNoValue;
  const FakeTensor* fake = as_fake(tensor);
  if (fake == nullptr) refuse(node, "a list argument has a constant tensor that is not an input of the step");
  operands_.emplace(fake->meta.storage().unsafeGetStorageImpl(), fake->id);
  return fake->id;
}

ir::Argument enumerator(std::int64_t value, const c10::TypePtr& declared) {
  c10::TypePtr type = declared;
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  std::ostringstream text;
  switch (type->kind()) {
    case c10::TypeKind::ScalarTypeType:
      return to_ir(static_cast<at::ScalarType>(value));
    case c10::TypeKind::LayoutType:
      text << static_cast<at::Layout>(value);
      break;
    case c10::TypeKind::MemoryFormatType:
      text << static_cast<at::MemoryFormat>(value);
      break;
    default:
      return value;
  }
  std::string name = text.str();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return ir::Symbol{name.substr(name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1)};
}

ir::Argument Recorder::argument(const IValue& value, const c10::Argument& declared, const ir::Node& node) {
  if (value.isNone()) return ir::None{};
  if (value.isTensor()) return tensor_argument(value.toTensor(), node);
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return enumerator(value.toInt(), declared.real_type());
  if (value.isDouble()) return value.toDouble();
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) return ir::Symbol{"device"};
  if (value.isIntList()) return value.toIntVector();
  if (value.isDoubleList()) return value.toDoubleVector();
  if (value.isBoolList()) {
    const auto list = value.toBoolList();
    return std::vector<bool>(list.begin(), list.end());
  }
  ir::UseList uses;
  if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorVector()) uses.values.push_back(list_item(tensor, node));
    return uses;
  }
  if (value.isOptionalTensorList()) {
    for (const std::optional<Tensor>& tensor : value.toOptionalTensorVector())
      uses.values.push_back(list_item(tensor.value_or(Tensor()), node));
    return uses;
  }
  refuse(node,
         "argument \"" + declared.name() + "\" is a " + value.tagKind() + ", which a graph cannot represent");
}

Tensor to_meta(const Tensor& tensor) {
  if (const FakeTensor* fake = as_fake(tensor)) return fake->meta;
  if (!tensor.defined() || tensor.is_meta()) return tensor;
  Tensor meta = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

void swap_in_meta(IValue& value) {
  if (value.isTensor()) {
    value = to_meta(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<Tensor> metas;
    for (const Tensor& tensor : value.toTensorVector()) metas.push_back(to_meta(tensor));
    value = metas;
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> metas;
    for (const auto& tensor : value.toOptionalTensorVector())
      metas.push_back(tensor ? std::optional<Tensor>(to_meta(*tensor)) : std::nullopt);
    value = metas;
  } else if (value.isDevice()) {
    value = c10::Device(at::kMeta);
  }
}

void Recorder::run_shape_rule(const c10::OperatorHandle& op, const ir::Node& node, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_fake(c10::DispatchKey::Fake);
  const c10::impl::ExcludeDispatchKeyGuard no_functionalize(c10::DispatchKey::Functionalize);
  const c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  try {
    op.callBoxed(stack);
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    refuse(node, "its shape rule (Meta kernel) is missing or rejects these arguments: " +
                     message.substr(0, message.find('\n')));
  }
}

Tensor Recorder::wrap_result(const Tensor& meta, ir::Node& node) {
  if (!meta.defined()) {
    node.results.push_back(graph.add_value({ir::contiguous(ir::DType::u8, {0}), ir::kNoValue, ir::kNoValue}));
    return meta;
  }
  ir::Value value{type_of(meta), ir::kNoValue, ir::kNoValue};
  if (const auto operand = operands_.find(meta.storage().unsafeGetStorageImpl()); operand != operands_.end())
    value.views = operand->second;
  const ir::ValueId id = graph.add_value(std::move(value));
  node.results.push_back(id);
  return Tensor(c10::make_intrusive<FakeTensor>(meta, id));
}

void Recorder::call(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  ir::Node node;
  node.op = op_name(op);
  place(node);
  if (schema.is_mutable()) refuse(node, "it overwrites its arguments and has no functional form here");

  operands_.clear();
  const std::size_t base = stack->size() - schema.arguments().size();
  for (std::size_t i = 0; i < schema.arguments().size(); ++i)
    node.args.push_back(argument((*stack)[base + i], schema.arguments()[i], node));
  for (std::size_t i = base; i < stack->size(); ++i) swap_in_meta((*stack)[i]);
  run_shape_rule(op, node, stack);

  for (std::size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i) {
    IValue& result = (*stack)[i];
    if (result.isTensor()) {
      result = wrap_result(result.toTensor(), node);
    } else if (result.isTensorList()) {
      std::vector<Tensor> wrapped;
      for (const Tensor& meta : result.toTensorVector()) wrapped.push_back(wrap_result(meta, node));
      result = wrapped;
    } else {
      refuse(node, "it returns a number to the host; a step must not depend on data");
    }
  }
  graph.nodes.push_back(std::move(node));
}

void add_return(ir::Graph& graph, const StepFunction& function, const std::vector<Tensor>& outputs) {
  RONDO_ASSERT(outputs.size() == function.outputs.size(),
               function.name + " returns a different number of outputs than it names");
  ir::Node node;
  node.op = ir::kReturn;
  node.phase = Phase::update;
  for (const Tensor& output : outputs) {
    at::functionalization::impl::sync(output);
    const FakeTensor* fake = as_fake(at::functionalization::impl::from_functional_tensor(output));
    RONDO_ASSERT(fake != nullptr, function.name + " returns a tensor that was not traced");
    node.args.emplace_back(ir::Use{fake->id});
  }
  graph.outputs = function.outputs;
  graph.nodes.push_back(std::move(node));
}

}  // namespace

ir::Graph trace(const StepFunction& function) {
  Recorder recorder(function.name);
  recorder.graph.mesh = function.mesh;
  const Interception recording(recorder);
  std::vector<Tensor> inputs;
  for (const StepInput& input : function.inputs)
    inputs.push_back(at::functionalization::impl::to_functional_tensor(recorder.add_input(input)));
  {
    const at::functionalization::impl::FunctionalizationReapplyViewsGuard reapply_views(true);
    const c10::impl::IncludeDispatchKeyGuard functionalize(c10::DispatchKey::Functionalize);
    add_return(recorder.graph, function, function.body(inputs));
  }
  return std::move(recorder.graph);
}

}  // namespace rondo

// Resolves a node once, so that a call only pushes IValues and enters the dispatcher's boxed
// kernel. The schema determines how a constant is converted, because the same symbol can be a
// device, a layout or a memory format. A wrapped number becomes a zero-dimensional tensor with
// LibTorch's flag, which excludes it from type promotion. Operands have an empty entry among the
// constants, so that one index serves both lists.
#include "compiler/execute/boxed_node.h"

#include <ATen/ops/scalar_tensor.h>

#include "compiler/trace/step_function.h"
#include "support/error.h"

namespace rondo {
namespace {

using c10::IValue;

c10::OperatorHandle find_op(const ir::Node& node) {
  const std::size_t first = node.op.find('.'), last = node.op.rfind('.');
  RONDO_ASSERT(first != std::string::npos && first != last,
               "the name of an op is namespace.name.overload: " + node.op);
  const std::string name = node.op.substr(0, first) + "::" + node.op.substr(first + 1, last - first - 1);
  const std::string overload = node.op.substr(last + 1);
  const auto handle = c10::Dispatcher::singleton().findSchema({name, overload == "default" ? "" : overload});
  if (!handle)
    throw Error(ExitCode::graph,
                "op " + node.op + " (module \"" + node.module + "\") is unknown to this LibTorch");
  return *handle;
}

c10::TypePtr without_optional(const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>()) return optional->getElementType();
  return type;
}

IValue wrapped(const ir::WrappedNumber& constant) {
  at::Tensor tensor = std::visit(
      [](auto number) {
        using Number = decltype(number);
        const at::ScalarType dtype = std::is_same_v<Number, bool>     ? at::kBool
                                     : std::is_same_v<Number, double> ? at::kDouble
                                                                      : at::kLong;
        return at::scalar_tensor(number, at::TensorOptions().dtype(dtype));
      },
      constant.number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

IValue symbol(const ir::Symbol& symbol, const c10::Argument& declared, const ir::Node& node,
              c10::Device device) {
  switch (without_optional(declared.real_type())->kind()) {
    case c10::TypeKind::DeviceObjType:
      return device;
    case c10::TypeKind::LayoutType:
      if (symbol.name == "strided") return static_cast<std::int64_t>(at::kStrided);
      break;
    case c10::TypeKind::MemoryFormatType:
      if (symbol.name == "contiguous") return static_cast<std::int64_t>(at::MemoryFormat::Contiguous);
      if (symbol.name == "preserve") return static_cast<std::int64_t>(at::MemoryFormat::Preserve);
      break;
    default:
      break;
  }
  throw Error(ExitCode::graph, node.op + ": argument \"" + declared.name() + "\" cannot be " + symbol.name);
}

struct ToIValue {
  const ir::Node& node;
  const c10::Argument& declared;
  c10::Device device;
  IValue operator()(const ir::None&) const { return {}; }
  IValue operator()(const ir::Use&) const { return {}; }
  IValue operator()(const ir::UseList&) const { return {}; }
  IValue operator()(ir::DType dtype) const { return static_cast<std::int64_t>(to_aten(dtype)); }
  IValue operator()(const ir::Symbol& s) const { return symbol(s, declared, node, device); }
  IValue operator()(const ir::WrappedNumber& n) const { return wrapped(n); }
  IValue operator()(const std::vector<bool>& list) const {
    c10::List<bool> result;
    for (bool item : list) result.push_back(item);
    return result;
  }
  template <class T>
  IValue operator()(const T& plain) const {
    return plain;
  }
};

IValue tensor_list(const ir::UseList& list, const c10::Argument& declared,
                   const std::function<at::Tensor(ir::ValueId)>& tensor_of) {
  const auto type = without_optional(declared.real_type())->cast<c10::ListType>();
  if (type && type->getElementType()->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (ir::ValueId id : list.values)
      tensors.push_back(id == ir::kNoValue ? std::nullopt : std::optional<at::Tensor>(tensor_of(id)));
    return tensors;
  }
  c10::List<at::Tensor> tensors;
  for (ir::ValueId id : list.values) tensors.push_back(id == ir::kNoValue ? at::Tensor() : tensor_of(id));
  return tensors;
}

}  // namespace

BoxedNode::BoxedNode(const ir::Node& node, c10::Device device) : node_(&node), op_(find_op(node)) {
  const auto& declared = op_.schema().arguments();
  if (declared.size() != node.args.size())
    throw Error(ExitCode::graph, node.op + " takes " + std::to_string(declared.size()) +
                                     " arguments, but its node has " + std::to_string(node.args.size()));
  for (std::size_t i = 0; i < declared.size(); ++i)
    constants_.push_back(std::visit(ToIValue{node, declared[i], device}, node.args[i]));
}

void BoxedNode::push(torch::jit::Stack& stack,
                     const std::function<at::Tensor(ir::ValueId)>& tensor_of) const {
  for (std::size_t i = 0; i < constants_.size(); ++i) {
    const ir::Argument& argument = node_->args[i];
    if (const auto* use = std::get_if<ir::Use>(&argument)) {
      stack.emplace_back(tensor_of(use->value));
    } else if (const auto* list = std::get_if<ir::UseList>(&argument)) {
      stack.push_back(tensor_list(*list, op_.schema().arguments()[i], tensor_of));
    } else {
      stack.push_back(constants_[i]);
    }
  }
}

void check_device(const ir::Node& node, const at::Tensor& result, c10::Device device) {
  if (result.device() == device) return;
  throw Error(ExitCode::graph, node.op + " (module \"" + node.module + "\") put its result on " +
                                   result.device().str() + ", but the step runs on " + device.str() +
                                   "; an op must create tensors on the device of its operands");
}

std::vector<at::Tensor> flatten_results(const torch::jit::Stack& stack) {
  std::vector<at::Tensor> results;
  for (const IValue& value : stack) {
    if (value.isTensor()) {
      results.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) results.push_back(tensor);
    }
  }
  return results;
}

}  // namespace rondo

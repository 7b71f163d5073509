// The graph of a traced step, in plain C++: neither the graph nor any pass uses LibTorch.
//
// A graph is an ordered list of nodes, and the order is the schedule. The last node is `return`;
// its operands are the graph's results, so "has one reader" has one meaning for every pass. Shapes
// are numbers; there are no symbolic sizes. Ids of values are dense, stable while a graph lives,
// and never reused. Copying a graph is a deep copy.
//
// Note [Aliases]: `views` marks a result that shares the storage of that operand; the node writes
// nothing. `writes` marks a result that is the new content of that operand's storage, which the
// node overwrote. After a write, older values of the same storage must not be read; the verifier
// checks it. An op that mutates arguments and returns nothing by its schema (`rondo.adamw_`) has
// one result per overwritten operand in a graph, so that data flow is visible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/ir/id_map.h"
#include "compiler/ir/sharding.h"
#include "support/scope.h"

namespace rondo::ir {

// Floating-point types first. The float8 types follow the OCP specification (E4M3 has no
// infinities).
enum class DType : std::uint8_t { f64, f32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i16, i8, u8, b8 };
std::int64_t dtype_bytes(DType dtype);
std::string_view dtype_name(DType dtype);  // "bf16"; bool is "b8"
constexpr bool is_float(DType dtype) { return dtype <= DType::f8e5m2; }
std::optional<DType> dtype_from_name(std::string_view name);

struct TensorType {
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // in elements, always filled

  bool operator==(const TensorType&) const = default;
};
// Returns a contiguous (row-major) tensor type.
TensorType contiguous(DType dtype, std::vector<std::int64_t> sizes);
// Returns the row-major strides as LibTorch defines them: a size of 0 counts as 1.
std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& sizes);
// Returns true if the elements are in row-major order without gaps. Ignores strides of dimensions
// of size 1.
bool is_contiguous(const TensorType& type);
std::int64_t element_count(const TensorType& type);
// Returns the bytes from the first to one past the last element that the strides reach: the size of
// a separate storage.
std::int64_t storage_bytes(const TensorType& type);

using ValueId = std::int32_t;
constexpr ValueId kNoValue = -1;
using NodeIndex = std::int32_t;  // into Graph::nodes
constexpr NodeIndex kNoNode = -1;

struct Value {
  TensorType type;
  ValueId views = kNoValue;   // Note [Aliases]
  ValueId writes = kNoValue;  // Note [Aliases]
  bool on_host = false;       // in host memory, not device memory; a view is where its source is
};

// Arguments are positional: one for each argument of the op's schema, with defaults filled in.
struct None {
  bool operator==(const None&) const = default;
};
struct Use {  // an operand
  ValueId value = kNoValue;
  bool operator==(const Use&) const = default;
};
struct UseList {  // a list of operands; kNoValue where an optional tensor is absent
  std::vector<ValueId> values;
  bool operator==(const UseList&) const = default;
};
struct WrappedNumber {  // a zero-dimensional constant that type promotion ignores (`x * 2.0`)
  std::variant<bool, std::int64_t, double> number;
  bool operator==(const WrappedNumber&) const = default;
};
// An enumerator of LibTorch other than a dtype: "strided", "cpu", "contiguous_format".
struct Symbol {
  std::string name;
  bool operator==(const Symbol&) const = default;
};
using Argument =
    std::variant<None, bool, std::int64_t, double, std::string, DType, Symbol, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<bool>, WrappedNumber, Use, UseList>;

struct Node {
  std::string op;  // "aten.mm.default"
  std::vector<Argument> args;
  std::vector<ValueId> results;
  Phase phase = Phase::forward;
  std::string module;  // dotted path of the module that created it, for backward nodes too
  std::string origin;  // the pass that created the node; empty for a traced one
};
constexpr std::string_view kReturn = "return";

// `saved` is memory that graphs of one step share (compiler/bodies/bodies.h): one writes values to
// it, and others read them.
enum class InputKind : std::uint8_t { parameter, optimizer, buffer, batch, saved };
std::string_view input_kind_name(InputKind kind);
std::optional<InputKind> input_kind_from_name(std::string_view name);

struct Input {
  std::string name;  // unique; "layers.0.attention.wq.weight"
  InputKind kind = InputKind::batch;
  ValueId value = kNoValue;
  // The bucket of a parameter. Parameters of one bucket are gathered and reduced together, in the
  // order of the inputs. May be empty.
  std::string bucket = {};
  Sharding sharding = {};
};

// One for each operand of the return node, in its order.
struct Output {
  std::string name;  // unique
  int updates = -1;  // index of the input that gets this as new content, or -1 for a plain result
};

// The nodes [begin, end) that a device records once and replays without the host; see
// compiler/ops/segments.h.
struct Segment {
  NodeIndex begin = 0;
  NodeIndex end = 0;
  bool operator==(const Segment&) const = default;
};

struct Graph {
  std::string name;
  // Module paths of the model's blocks, in the order of the forward. A block may be recomputed as a
  // whole. No block is inside another.
  IdMap<std::string> blocks;
  MeshAxes mesh;
  IdMap<Input> inputs;
  std::vector<Output> outputs;
  IdMap<Node> nodes;  // the last one is `return`
  IdMap<Value> values;
  std::vector<Segment> segments;  // recorded nodes, in their order; set by the pass cudagraph

  ValueId add_value(Value value);
  const Value& value(ValueId id) const { return values[id]; }
  Value& value(ValueId id) { return values[id]; }
  NodeIndex node_count() const { return static_cast<NodeIndex>(nodes.size()); }
  ValueId value_count() const { return static_cast<ValueId>(values.size()); }
  const Node& return_node() const { return nodes.back(); }
  Node& return_node() { return nodes.back(); }
};

// Returns the argument at a position, or nullptr if it is no T or there is no such argument.
template <class T>
const T* argument(const Node& node, std::size_t position) {
  return position < node.args.size() ? std::get_if<T>(&node.args[position]) : nullptr;
}
// Returns the operand at an argument, or kNoValue if it is no operand or there is no such argument.
ValueId operand(const Node& node, std::size_t argument);
// Returns the number at an argument, plain or wrapped.
std::optional<double> number(const Node& node, std::size_t argument);
// Returns the integer at an argument, or 0 if it is no integer or there is no such argument.
std::int64_t integer(const Node& node, std::size_t argument);

// Calls f(ValueId) for each operand in order, without absent optional tensors.
template <class F>
void for_each_operand(const Node& node, F&& f) {
  for (const Argument& arg : node.args) {
    if (const auto* use = std::get_if<Use>(&arg)) {
      f(use->value);
    } else if (const auto* list = std::get_if<UseList>(&arg)) {
      for (ValueId id : list->values)
        if (id != kNoValue) f(id);
    }
  }
}
// Calls f(ValueId&) for each operand in order, to rewrite operands in place.
template <class F>
void for_each_operand(Node& node, F&& f) {
  for (Argument& arg : node.args) {
    if (auto* use = std::get_if<Use>(&arg)) {
      f(use->value);
    } else if (auto* list = std::get_if<UseList>(&arg)) {
      for (ValueId& id : list->values)
        if (id != kNoValue) f(id);
    }
  }
}

// Returns, by node, the index into `blocks` of the block that contains its module, or -1.
IdMap<std::int32_t> blocks_of_nodes(const Graph& graph);

// Rewrites every operand v, and every `views` and `writes` mark, to replacement[v] where that is
// not kNoValue. REQUIRES: no chains (a -> b -> c).
void replace_uses(Graph& graph, const IdMap<ValueId>& replacement);

// Removes the nodes whose flag is false. Their values remain as ids that no node defines.
void keep_nodes(Graph& graph, const std::vector<bool>& keep);

}  // namespace rondo::ir

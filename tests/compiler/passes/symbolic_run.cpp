// Runs a graph on hashes. A storage has the hash of its content, and a view mixes in its start and
// type.
#include <bit>
#include <functional>
#include <unordered_map>

#include "compiler/ops/op.h"
#include "compiler/text/text.h"
#include "tests/compiler/passes/random_graph.h"

namespace rondo::ir {
namespace {

using Hash = std::uint64_t;

Hash mix(Hash a, Hash b) {
  a ^= b + 0x9e3779b97f4a7c15u + (a << 12) + (a >> 4);
  return a * 0xff51afd7ed558ccdu;
}
Hash hash_text(std::string_view text) { return std::hash<std::string_view>()(text); }
Hash hash_type(const TensorType& type) { return hash_text(print(type)); }

class SymbolicRun {
 public:
  explicit SymbolicRun(const Graph& graph) : graph_(graph), places_(graph.values.size()) {
    for (const Op& op : all_ops())
      if (op.overwritten > 0) functional_.emplace(in_place_name(op), op.name);
    for (const Input& input : graph.inputs) allocate(input.value, hash_text(input.name), dtype(input.value));
  }

  std::map<std::string, std::uint64_t> run() {
    for (std::size_t i = 0; i + 1 < graph_.nodes.size(); ++i) step(graph_.nodes[i]);
    std::map<std::string, std::uint64_t> outputs;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i)
      outputs[graph_.outputs[i].name] = read(std::get<Use>(graph_.return_node().args[i]).value);
    return outputs;
  }

 private:
  struct Place {
    std::size_t storage = 0;
    Hash start = 0;
  };

  // The content of a storage, and the narrowest dtype that represents it without rounding.
  struct Storage {
    Hash content = 0;
    DType exact_in = DType::f32;
  };

  Place& place(ValueId id) { return places_[static_cast<std::size_t>(id)]; }
  Storage& storage(ValueId id) { return storages_[place(id).storage]; }
  DType dtype(ValueId id) const { return graph_.value(id).type.dtype; }
  void allocate(ValueId id, Hash content, DType exact_in) {
    place(id) = {storages_.size(), 0};
    storages_.push_back({content, exact_in});
  }
  Hash read(ValueId id) {
    return mix(mix(storage(id).content, place(id).start), hash_type(graph_.value(id).type));
  }

  // Hashes op, arguments and contents of operands.
  Hash meaning(const Node& node) {
    const auto form = functional_.find(node.op);
    Hash hash = hash_text(form == functional_.end() ? node.op : form->second);
    Node constants = node;
    for_each_operand(constants, [&](ValueId& id) {
      hash = mix(hash, read(id));
      id = 0;
    });
    constants.results.clear();
    constants.op = "x";
    constants.origin.clear();
    return mix(hash, hash_text(print(graph_, constants)));
  }

  static bool is_copy(const Node& node) {
    if (node.op == "rondo.offload.default" || node.op == "rondo.reload.default") return true;
    return node.op == "aten.clone.default" ||
           (node.op == "aten._to_copy.default" && std::holds_alternative<None>(node.args[3]));
  }
  static bool holds_all_of(DType to, DType from) {
    return from == to || to == DType::f64 || (from == DType::bf16 && to == DType::f32);
  }
  // Keeps sizes and strides, and so the elements of a view.
  void copy(ValueId source, ValueId result) {
    const Storage from = storage(source);
    const Hash start = place(source).start;
    const DType to = dtype(result);
    const bool keeps = holds_all_of(to, from.exact_in);
    allocate(result, keeps ? from.content : mix(from.content, hash_text(dtype_name(to))),
             keeps ? from.exact_in : to);
    place(result).start = start;
  }

  void step(const Node& node) {
    const Op& op = facts(node.op);
    if (node.op == "rondo.wait_transfer.default") {
      place(node.results[0]) = place(std::get<Use>(node.args[0]).value);
      return;
    }
    if (op.effect == Effect::wait) {
      const ValueId awaited = std::get<Use>(node.args[0]).value;
      storage(awaited) = {meaning(*started_.at(awaited)), dtype(awaited)};
      place(node.results[0]) = place(awaited);
      return;
    }
    if (op.view != ViewKind::none) return view(node, op);
    const ValueId first = node.args.empty() || !std::holds_alternative<Use>(node.args[0])
                              ? kNoValue
                              : std::get<Use>(node.args[0]).value;
    if (is_copy(node) && graph_.value(first).type.strides == graph_.value(node.results[0]).type.strides)
      return copy(first, node.results[0]);
    Hash hash = meaning(node);
    if (op.effect == Effect::random) hash = mix(hash, ++random_draws_);
    for (std::size_t k = 0; k < node.results.size(); ++k) {
      const ValueId id = node.results[k];
      const Hash content = mix(hash, k);
      if (op.effect == Effect::collective_start) started_[id] = &node;
      if (const ValueId target = graph_.value(id).writes; target != kNoValue) {
        place(id) = {place(target).storage, 0};
        storage(id) = {content, dtype(id)};
      } else {
        allocate(id, content, dtype(id));
      }
    }
  }

  void view(const Node& node, const Op& op) {
    const ValueId source = std::get<Use>(node.args[0]).value;
    for (std::size_t k = 0; k < node.results.size(); ++k) {
      const ValueId id = node.results[k];
      place(id) = place(source);
      if (op.view == ViewKind::same_start || graph_.value(id).type == graph_.value(source).type) continue;
      Node arguments = node;
      arguments.args[0] = None{};
      arguments.results.clear();
      arguments.origin.clear();
      place(id).start = mix(mix(place(source).start, hash_type(graph_.value(source).type)),
                            mix(hash_text(print(graph_, arguments)), k));
    }
  }

  const Graph& graph_;
  std::vector<Place> places_;
  std::vector<Storage> storages_;
  std::unordered_map<std::string, std::string_view> functional_;
  std::unordered_map<ValueId, const Node*> started_;
  Hash random_draws_ = 0;
};

}  // namespace

std::map<std::string, std::uint64_t> symbolic_run(const Graph& graph) { return SymbolicRun(graph).run(); }

}  // namespace rondo::ir

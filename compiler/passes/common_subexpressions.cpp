//   %5: f32[8] = aten.mul.Tensor(%1, %2)          %5: f32[8] = aten.mul.Tensor(%1, %2)
//   %6: f32[8] = aten.mul.Tensor(%1, %2)    ->    %7: f32[8] = aten.add.Tensor(%5, %5, 1)
//   %7: f32[8] = aten.add.Tensor(%5, %6, 1)
//
// Since a value names one content of a storage, equal operands mean equal contents, writes or not. What must
// not be merged is a result that is itself overwritten later, and results that update two states: each needs
// its own storage.
#include <bit>
#include <functional>
#include <string_view>
#include <unordered_set>

#include "compiler/op_facts.h"
#include "compiler/passes.h"

namespace rondo::ir {
namespace {

void mix(std::size_t& hash, std::size_t next) { hash = (hash ^ next) * 0x9e3779b97f4a7c15u + (hash >> 29); }

template <class T>
std::size_t hash_of(const T& element) {
  return std::hash<T>()(element);
}
std::size_t hash_of(None) { return 1; }
std::size_t hash_of(DType dtype) { return static_cast<std::size_t>(dtype); }
std::size_t hash_of(const Symbol& symbol) { return hash_of(symbol.name); }
std::size_t hash_of(Use use) { return static_cast<std::size_t>(use.value); }
template <class T>
std::size_t hash_of(const std::vector<T>& list) {
  std::size_t hash = list.size();
  for (const auto& element : list) mix(hash, hash_of(static_cast<T>(element)));
  return hash;
}
std::size_t hash_of(const UseList& list) { return hash_of(list.values); }
std::size_t hash_of(const WrappedNumber& wrapped) {
  return std::visit([](auto number) { return hash_of(number); }, wrapped.number);
}

std::size_t hash_node(const Node& node) {
  std::size_t hash = hash_of(node.op);
  for (const Argument& arg : node.args) {
    mix(hash, arg.index());
    mix(hash, std::visit([](const auto& a) { return hash_of(a); }, arg));
  }
  return hash;
}

// Bit for bit: 0.0 and -0.0 are different numbers here, and a nan is equal to itself.
bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_argument(const Argument& a, const Argument& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<double>(&a)) return same_bits(*x, std::get<double>(b));
  if (const auto* list = std::get_if<std::vector<double>>(&a)) {
    const auto& other = std::get<std::vector<double>>(b);
    return std::equal(list->begin(), list->end(), other.begin(), other.end(), same_bits);
  }
  if (const auto* wrapped = std::get_if<WrappedNumber>(&a)) {
    const auto& other = std::get<WrappedNumber>(b);
    const auto* x = std::get_if<double>(&wrapped->number);
    const auto* y = std::get_if<double>(&other.number);
    return x != nullptr && y != nullptr ? same_bits(*x, *y) : *wrapped == other;
  }
  return a == b;
}

class Merger {
 public:
  explicit Merger(Graph& graph) : graph_(graph), replacement_(graph.values.size(), kNoValue) {}

  void run() {
    mark_own_storages();
    std::vector<bool> keep(graph_.nodes.size(), true);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      for_each_operand(node, [&](ValueId& id) {
        if (const ValueId other = replacement_[static_cast<std::size_t>(id)]; other != kNoValue) id = other;
      });
      if (!may_merge(node)) continue;
      const auto [first, is_new] = seen_.insert(&node);
      if (is_new) continue;
      for (std::size_t k = 0; k < node.results.size(); ++k)
        replacement_[static_cast<std::size_t>(node.results[k])] = (*first)->results[k];
      keep[i] = false;
    }
    replace_uses(graph_, replacement_);  // the marks of views
    keep_nodes(graph_, keep);
  }

 private:
  // Storages that are overwritten or become an update.
  void mark_own_storages() {
    roots_ = storage_roots(graph_);
    own_.assign(graph_.values.size(), false);
    for (const Node& node : graph_.nodes)
      for (ValueId id : node.results)
        if (graph_.value(id).writes != kNoValue) own_[root(id)] = true;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i)
      if (graph_.outputs[i].updates >= 0)
        own_[root(std::get<Use>(graph_.return_node().args[i]).value)] = true;
  }

  std::size_t root(ValueId id) const {
    return static_cast<std::size_t>(roots_[static_cast<std::size_t>(id)]);
  }

  bool may_merge(const Node& node) const {
    if (node.results.empty() || node.op == kReturn || facts(node.op).effect != Effect::none) return false;
    for (ValueId id : node.results)
      if (own_[root(id)]) return false;
    return true;
  }

  struct Hash {
    std::size_t operator()(const Node* node) const { return hash_node(*node); }
  };
  struct Equal {
    const Graph* graph;
    bool operator()(const Node* a, const Node* b) const {
      if (a->phase != b->phase || a->op != b->op || a->origin != b->origin ||
          a->args.size() != b->args.size() || a->results.size() != b->results.size())
        return false;
      for (std::size_t i = 0; i < a->args.size(); ++i)
        if (!same_argument(a->args[i], b->args[i])) return false;
      for (std::size_t i = 0; i < a->results.size(); ++i)
        if (graph->value(a->results[i]).type != graph->value(b->results[i]).type) return false;
      return true;
    }
  };

  Graph& graph_;
  std::vector<ValueId> replacement_;
  std::vector<ValueId> roots_;
  std::vector<bool> own_;  // for a root
  std::unordered_set<const Node*, Hash, Equal> seen_{16, Hash{}, Equal{&graph_}};
};

}  // namespace

Notes common_subexpressions(Graph& graph, const CompileOptions&) {
  Merger(graph).run();
  return {};
}

}  // namespace rondo::ir

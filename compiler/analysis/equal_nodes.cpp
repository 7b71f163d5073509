// Hash and equality of nodes for value numbering. Floating-point arguments are compared by their
// bits: operator== would merge 0.0 with -0.0 and would never match a nan. Only op and arguments are
// hashed; result types are compared afterwards. Whether a storage may be shared is decided at its
// root, so that one overwritten view marks all views.
#include "compiler/analysis/equal_nodes.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_set>
#include <vector>

#include "compiler/ir/storages.h"

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

}  // namespace

std::size_t hash_node(const Node& node) {
  std::size_t hash = hash_of(node.op);
  for (const Argument& arg : node.args) {
    mix(hash, arg.index());
    mix(hash, std::visit([](const auto& a) { return hash_of(a); }, arg));
  }
  return hash;
}

namespace {

// Compares bits: 0.0 and -0.0 differ, and a nan equals itself.
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

}  // namespace

IdMap<bool> need_own_storage(const Graph& graph) {
  const IdMap<ValueId> roots = storage_roots(graph);
  IdMap<bool> own = overwritten_storages(graph, roots);
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    if (graph.outputs[i].updates >= 0) own[roots[std::get<Use>(graph.return_node().args[i]).value]] = true;
  IdMap<bool> of_values;
  for (const ValueId root : roots) of_values.push_back(own[root]);
  return of_values;
}

bool equal_nodes(const Graph& graph, const Node& a, const Node& b) {
  if (a.op != b.op || a.args.size() != b.args.size() || a.results.size() != b.results.size()) return false;
  for (std::size_t i = 0; i < a.args.size(); ++i)
    if (!same_argument(a.args[i], b.args[i])) return false;
  for (std::size_t i = 0; i < a.results.size(); ++i)
    if (graph.value(a.results[i]).type != graph.value(b.results[i]).type) return false;
  return true;
}

void merge_equal_nodes(Graph& graph, const std::function<bool(NodeIndex)>& mergeable,
                       const std::function<bool(NodeIndex, NodeIndex)>& same_context) {
  const auto hash = [&](NodeIndex i) { return hash_node(graph.nodes[i]); };
  const auto equal = [&](NodeIndex a, NodeIndex b) {
    return same_context(a, b) && equal_nodes(graph, graph.nodes[a], graph.nodes[b]);
  };
  std::unordered_set<NodeIndex, decltype(hash), decltype(equal)> first_of_kind(16, hash, equal);
  const IdMap<bool> own = need_own_storage(graph);
  IdMap<ValueId> replacement(graph.values.size(), kNoValue);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    Node& node = graph.nodes[i];
    for_each_operand(node, [&](ValueId& id) {
      if (const ValueId other = replacement[id]; other != kNoValue) id = other;
    });
    if (node.results.empty() || !mergeable(i) ||
        std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) { return own[id]; }))
      continue;
    const auto [first, is_new] = first_of_kind.insert(i);
    if (is_new) continue;
    for (std::size_t k = 0; k < node.results.size(); ++k)
      replacement[node.results[k]] = graph.nodes[*first].results[k];
    keep[static_cast<std::size_t>(i)] = false;
  }
  replace_uses(graph, replacement);  // for the marks of views
  keep_nodes(graph, keep);
}

}  // namespace rondo::ir

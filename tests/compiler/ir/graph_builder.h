// A graph that grows by random nodes, with the values that the next node may read. For
// random_graph.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

class GraphBuilder {
 protected:
  explicit GraphBuilder(std::uint64_t seed) : random_(seed) {}

  std::size_t pick(std::size_t n) { return random_() % n; }
  bool chance(std::size_t one_in) { return pick(one_in) == 0; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  void add_input(std::string name, InputKind kind, TensorType type, std::string bucket = {}) {
    const ValueId id = graph_.add_value({std::move(type)});
    graph_.inputs.push_back({std::move(name), kind, id, std::move(bucket)});
    pool_.push_back(id);
    roots_.push_back(id);
  }

  // Returns a value that may be read: it is neither overwritten nor pending.
  ValueId any() {
    return pool_[chance(2) ? pick(pool_.size())
                           : pool_.size() - 1 - pick(std::min<std::size_t>(8, pool_.size()))];
  }
  template <class Condition>
  ValueId any_where(Condition condition) {
    for (int attempt = 0; attempt < 20; ++attempt)
      if (const ValueId id = any(); condition(type(id))) return id;
    return kNoValue;
  }
  static bool is_row_major(const TensorType& type) { return type.strides == contiguous_strides(type.sizes); }
  // Types whose pointwise results have the strides of the operand, for any number of operands.
  static bool is_plain(const TensorType& t) {
    if (t.dtype != DType::f32 && t.dtype != DType::bf16) return false;
    return is_row_major(t) || (t.sizes.size() == 2 && t.sizes[0] > 1 && t.sizes[1] > 1 && t.strides[0] == 1 &&
                               t.strides[1] == t.sizes[0]);
  }

  ValueId emit(std::string op, std::vector<Argument> args, TensorType type, ValueId views = kNoValue) {
    return emit_many(std::move(op), std::move(args), {std::move(type)}, views)[0];
  }
  std::vector<ValueId> emit_many(std::string op, std::vector<Argument> args, std::vector<TensorType> types,
                                 ValueId views = kNoValue) {
    Node node{.op = std::move(op),
              .args = std::move(args),
              .results = {},
              .phase = phase_,
              .module = module_,
              .origin = {}};
    for (TensorType& t : types) {
      const ValueId id = graph_.add_value({.type = std::move(t), .views = views});
      roots_.push_back(views == kNoValue ? id : roots_[static_cast<std::size_t>(views)]);
      node.results.push_back(id);
      pool_.push_back(id);
    }
    graph_.nodes.push_back(node);
    return node.results;
  }

  ValueId cast(ValueId id, DType dtype) {
    TensorType to = type(id);
    to.dtype = dtype;
    return emit("aten._to_copy.default", {Use{id}, dtype, None{}, None{}, None{}, false, None{}},
                std::move(to));
  }
  ValueId wait_for(ValueId started) {
    return emit("_c10d_functional.wait_tensor.default", {Use{started}}, type(started), started);
  }

  Graph graph_;
  Phase phase_ = Phase::forward;  // of the following nodes, like the module
  std::string module_;
  std::vector<ValueId> pool_;   // values that may be read
  std::vector<ValueId> roots_;  // the storage of each value

 private:
  std::mt19937_64 random_;
};

}  // namespace rondo::ir

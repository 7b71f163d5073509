// The parts of an op's price: bytes, and matrix products as GPU libraries compute them. The
// roofline is in compiler/plan/cost_model.h.
#pragma once

#include <cstdint>
#include <span>

#include "compiler/ir/ir.h"
#include "compiler/plan/devices/devices.h"

namespace rondo::ir {

// The resource that bounds a node.
enum class CostKind : std::uint8_t { nothing, matmul, attention, memory, launch };
struct NodeCost {
  double seconds = 0;
  CostKind kind = CostKind::nothing;
};

// A node with floating-point operations, on a device.
struct Priced {
  const Graph& graph;
  const Node& node;
  const DeviceModel& device;
  double flops;
  double peak;  // operations per second for the dtype of the first operand

  const TensorType& type(ValueId id) const { return graph.value(id).type; }
};

// Returns the bytes that a reader of the tensor touches.
double touched_bytes(const TensorType& type);
double operand_bytes(const Graph& graph, const Node& node);
double result_bytes(const Graph& graph, const Node& node);
double memory_seconds(double bytes, const DeviceModel& device);

// `groups` products of [m, k] and [k, n].
struct ProductShape {
  double groups = 1, m = 1, n = 1, k = 1;
};
double product_seconds(const ProductShape& shape, double peak, const DeviceModel& device);

// Returns the sizes of a value, or nothing for kNoValue.
std::span<const std::int64_t> sizes_of(const Graph& graph, ValueId id);
// Returns the number of elements, as a factor of floating-point operations.
double elements(std::span<const std::int64_t> sizes);
// REQUIRES: the node has an operand.
const TensorType& first_operand(const Graph& graph, const Node& node);

}  // namespace rondo::ir

// A tensor counts the smaller of its storage and its elements, which are the bytes that readers of
// broadcasts and slices touch.
#include "compiler/ops/price.h"

#include <algorithm>
#include <cmath>

namespace rondo::ir {
namespace {

// Returns the share of the rate with full tiles. A library computes tiles of the result, one per
// multiprocessor at a time. Tiles extend past the edges of the result, the last wave leaves
// multiprocessors without a tile, and a tile's pipeline fills and drains once for each sum. Filling
// and draining take the same time on every GPU: as long as a multiprocessor of an H200 needs for
// 256 terms of the sum. Tiles of 128 x 256 have the full rate. Tiles of 128 x 128 load half as much
// again for each operation, but there are twice as many of them. A multiprocessor with a lower rate
// than that of an H200 hides more of these loads.
double share_of_rate(const ProductShape& p, const DeviceModel& device) {
  constexpr double kSmallTileLoss = 0.15, kH200Depth = 256, kH200FlopsPerS = 989e12 / 132;
  const double multiprocessors = device.multiprocessors;
  const double rate = device.peak_16bit_flops_per_s / multiprocessors / kH200FlopsPerS;  // over an H200's
  const double depth = kH200Depth * rate, small_tile_rate = 1 - kSmallTileLoss * std::min(1.0, rate);
  struct Tile {
    double m, n, rate;
  };
  double best = 0;
  for (const Tile& tile : {Tile{128, 256, 1}, Tile{256, 128, 1}, Tile{128, 128, small_tile_rate}}) {
    const double tiles = p.groups * std::ceil(p.m / tile.m) * std::ceil(p.n / tile.n);
    const double waves = std::ceil(tiles / multiprocessors);
    const double filled = p.groups * p.m * p.n / (waves * multiprocessors * tile.m * tile.n);
    best = std::max(best, tile.rate * filled);
  }
  return best * p.k / (p.k + depth);
}

}  // namespace

double touched_bytes(const TensorType& type) {
  return static_cast<double>(std::min(storage_bytes(type), element_count(type) * dtype_bytes(type.dtype)));
}

double operand_bytes(const Graph& graph, const Node& node) {
  double bytes = 0;
  for_each_operand(node, [&](ValueId id) { bytes += touched_bytes(graph.value(id).type); });
  return bytes;
}

double result_bytes(const Graph& graph, const Node& node) {
  double bytes = 0;
  for (const ValueId id : node.results) bytes += touched_bytes(graph.value(id).type);
  return bytes;
}

double memory_seconds(double bytes, const DeviceModel& device) {
  return bytes / (device.peak_memory_bytes_per_s * device.memory_fraction);
}

double product_seconds(const ProductShape& p, double peak, const DeviceModel& device) {
  const double share = device.multiprocessors == 0 ? 1 : share_of_rate(p, device);
  return 2 * p.groups * p.m * p.n * p.k /
         (peak * device.matmul_fraction * std::min(share, device.sustained_fraction));
}

std::span<const std::int64_t> sizes_of(const Graph& graph, ValueId id) {
  if (id == kNoValue) return {};
  return graph.value(id).type.sizes;
}

double elements(std::span<const std::int64_t> sizes) {
  double count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<double>(size);
  return count;
}

const TensorType& first_operand(const Graph& graph, const Node& node) {
  const TensorType* first = nullptr;
  for_each_operand(node, [&](ValueId id) {
    if (first == nullptr) first = &graph.value(id).type;
  });
  return *first;
}

}  // namespace rondo::ir

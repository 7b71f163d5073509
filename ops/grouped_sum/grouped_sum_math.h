// The order of the sums of ops/grouped_sum/grouped_sum.h, shared by CPU and CUDA. No LibTorch.
//
// A run is divided into tiles of kRowsOfTile rows. Sum i of a tile adds its rows i, i +
// kSumsOfTile, ... in order. A tile's sum adds these in order, and a run's sum adds those of its
// tiles in order.
#pragma once

namespace rondo::grouped_sum_order {

constexpr int kRowsOfTile = 256, kSumsOfTile = 8;

}  // namespace rondo::grouped_sum_order

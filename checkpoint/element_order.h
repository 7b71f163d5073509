// In which order a checkpoint counts the elements of a tensor, so that what a rank holds is one range of
// them.
//
// Note [Part-major]: a tensor that is cut along dimension 0 or not at all is counted row-major, as it is
// flattened. One that is cut along a later dimension is counted *part-major*: its equal parts follow each
// other, each flattened row-major. Columns of a matrix, here 2 x 4 elements in 2 parts, numbers being those
// of the flattened matrix:
//
//   0 1 | 2 3
//   4 5 | 6 7      row-major: 0 1 2 3 4 5 6 7      part-major: 0 1 4 5 2 3 6 7
//
// A part of several blocks (parallel/flat_shard.h, Note [Cuts]) has its share of each: with 2 blocks these
// are
//
//   0 | 1   2 | 3
//   4 | 5   6 | 7                                  part-major: 0 2 4 6 1 3 5 7
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "parallel/flat_shard.h"

namespace rondo::checkpoint {

// {} is row-major.
struct ElementOrder {
  std::int64_t dim = 0, parts = 1, blocks = 1;
  bool row_major() const { return parts == 1; }
  bool operator==(const ElementOrder&) const = default;
};

// "" for {} and for what the format allows of a tensor of this shape: dim is one of its dimensions but the
// first, parts is from 2 to 65536, blocks at most so many, and they divide its size. Else the rule that is
// broken.
std::string problem_of(const ElementOrder& order, const Sizes& shape);

// Elements [begin, end), counted in `order`.
struct ElementRange {
  ElementOrder order;
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

// What a shard holds of its tensor: its first `count()` elements; the padding behind them is of no tensor.
// REQUIRES: where it is cut along another dimension than the first, the parts are equal.
ElementRange range_of(const FlatShard& place);

// A run of a shard, as the tensor's checkpoint counts it.
struct OrderedRun {
  std::int64_t in_order = 0;  // the first element
  std::int64_t in_shard = 0;  // the same, counted from the shard's beginning
  std::int64_t count = 0;
};

// Takes runs of a flattened tensor apart where parts of an order border on each other.
class OrderedRuns {
 public:
  // REQUIRES: problem_of(order, shape) is "".
  OrderedRuns(const Sizes& shape, const ElementOrder& order);

  // What of `run` lies in part `part` of the order. Ascends in it, from run to run too if these ascend.
  void for_each_in_part(std::int64_t part, const ElementRun& run,
                        const std::function<void(const OrderedRun&)>& visit) const;

 private:
  // The tensor as a matrix, whose columns are cut.
  std::int64_t rows_ = 1, row_ = 0, part_row_ = 0;
};

}  // namespace rondo::checkpoint

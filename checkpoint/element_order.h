// The order in which a checkpoint counts the elements of a tensor. In this order the elements that
// a rank holds are one range.
//
// Note [Part-major]: a tensor that is cut along dimension 0, or not cut, is counted row-major. A
// tensor that is cut along a later dimension is counted *part-major*: its equal parts follow each
// other, each flattened row-major. Example: the columns of a matrix of 2 x 4 elements in 2 parts.
// The numbers are the row-major indices:
//
//   0 1 | 2 3
//   4 5 | 6 7      row-major: 0 1 2 3 4 5 6 7      part-major: 0 1 4 5 2 3 6 7
//
// A part of several blocks (parallel/flat_shard.h, Note [Cuts]) has its share of each block. With
// 2 blocks:
//
//   0 | 1   2 | 3
//   4 | 5   6 | 7                                  part-major: 0 2 4 6 1 3 5 7
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "parallel/flat_shard.h"

namespace rondo::checkpoint {

// The default is row-major.
struct ElementOrder {
  std::int64_t dim = 0, parts = 1, blocks = 1;
  bool row_major() const { return parts == 1; }
  bool operator==(const ElementOrder&) const = default;
};

// Returns "" for a valid order of a tensor of this shape, otherwise the rule that it breaks. Valid
// are {} and orders with: `dim` is a dimension other than the first; `parts` is 2 to 65536;
// `blocks` is 1 to 65536; parts * blocks divides the size of `dim`.
std::string problem_of(const ElementOrder& order, const Sizes& shape);

// Elements [begin, end), counted in `order`.
struct ElementRange {
  ElementOrder order;
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

// Returns the range that a shard holds of its tensor: its first `count()` elements. The padding
// after them belongs to no tensor. REQUIRES: if the tensor is cut along a dimension other than the
// first, the parts are equal.
ElementRange range_of(const FlatShard& place);

// A run of elements of a shard, counted in the order of the checkpoint.
struct OrderedRun {
  std::int64_t in_order = 0;  // first element, in the order
  std::int64_t in_shard = 0;  // the same element, from the beginning of the shard
  std::int64_t count = 0;
};

// Splits runs of a flattened tensor at the borders between parts of an order.
class OrderedRuns {
 public:
  // REQUIRES: problem_of(order, shape) is "".
  OrderedRuns(const Sizes& shape, const ElementOrder& order);

  // Visits the pieces of `run` in part `part` of the order. Pieces ascend within a run, and over
  // several runs if these ascend.
  void for_each_in_part(std::int64_t part, const ElementRun& run,
                        const std::function<void(const OrderedRun&)>& visit) const;

 private:
  // The tensor as a matrix whose columns are cut.
  std::int64_t rows_ = 1, row_ = 0, part_row_ = 0;
};

}  // namespace rondo::checkpoint

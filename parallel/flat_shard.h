// The elements of a parameter that a rank computes with, and those that it stores.
//
// Note [Cuts]: tensor and expert parallelism cut a parameter along one dimension into equal parts:
// rows of the vocabulary, or columns of a matrix. A rank computes with one part. A size that the
// number of parts does not divide is padded with zeros at its end, so that all ranks run the same
// graph. Where a parameter is several matrices of one size, such as gates and ups, each of these
// blocks is cut. A part has its share of every block.
//
// Note [Flat shards]: the part is flattened (row-major) and sharded over the ranks that compute
// with it. Rank r stores elements [r * stored, (r + 1) * stored); the end is padded. So every shape
// shards evenly over any number of ranks, with less than `ranks` elements of padding. Sharding
// along the first dimension would pad whole rows: 4 kv rows over 64 ranks need 16 times the bytes.
// Padding stays zero, because its gradient is zero and AdamW maps zero to zero.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace rondo {

using Sizes = std::vector<std::int64_t>;

// Part `part` of `parts` along `dim`, of each of `blocks` equal blocks.
struct Cut {
  int dim = 0;
  std::int64_t parts = 1;
  std::int64_t part = 0;
  std::int64_t blocks = 1;
};

// Part `part` of `parts` along dimension 0, taken before the Cut: some of the experts. REQUIRES:
// `parts` divides the size of dimension 0.
struct RowPart {
  std::int64_t parts = 1;
  std::int64_t part = 0;
};

// Elements that are consecutive both in a rank's shard and in the flattened parameter.
struct ElementRun {
  std::int64_t in_shard = 0;  // offset of the first in the shard
  std::int64_t in_whole = 0;  // offset of the first in the flattened parameter
  std::int64_t count = 0;
};

// Place of a part in the flattened parameter: element j of the part is element first + j / row *
// pitch + j % row. It is padding if j % row is `real` or more.
struct PartPlace {
  std::int64_t first = 0;
  std::int64_t row = 1, pitch = 1;  // positive; equal if the part is contiguous
  std::int64_t real = 0;
};

class FlatShard {
 public:
  FlatShard() = default;
  // Shard `rank` of `ranks` of the part that `rows` and then `cut` take of a parameter of `sizes`.
  // REQUIRES with several parts: cut.dim is a dimension, and not 0 if rows are divided; cut.blocks
  // divides its size.
  FlatShard(Sizes sizes, const Cut& cut, std::int64_t ranks, std::int64_t rank, const RowPart& rows = {});
  // The whole parameter.
  explicit FlatShard(Sizes sizes) : FlatShard(std::move(sizes), {}, 1, 0) {}

  const Sizes& sizes() const { return sizes_; }  // sizes of the whole parameter
  const Cut& cut() const { return cut_; }
  const RowPart& rows() const { return rows_; }
  Sizes part_sizes() const;  // sizes of the part that a rank computes with, including padding
  std::int64_t part_elements() const;
  PartPlace part_place() const;
  std::int64_t stored() const;  // elements of a shard, with padding
  // The range of the flattened part that this rank stores. It includes the padding of the cut, but
  // not the padding of the shards.
  std::int64_t begin() const;
  std::int64_t end() const;
  // Visits runs in ascending order. Elements of the shard that are in no run are padding.
  void for_each_run(const std::function<void(const ElementRun&)>& visit) const;

 private:
  Sizes row_sizes() const;  // sizes of the parameter, restricted to this rank's rows

  Sizes sizes_;
  Cut cut_;
  RowPart rows_;
  std::int64_t ranks_ = 1;
  std::int64_t rank_ = 0;
};

std::int64_t element_count(const Sizes& sizes);

}  // namespace rondo

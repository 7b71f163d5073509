// Where the elements of one parameter lie: which part of it a rank computes with, and which elements it
// keeps.
//
// Note [Cuts]: tensor and expert parallelism cut a parameter along one dimension into equal parts, rows of
// the vocabulary or columns of a matrix, and a rank computes with one part. A size that does not divide is
// padded with zeros behind its end, so that all ranks run the same graph. Where several matrices lie beside
// each other in one, gates and then ups, each of these blocks is cut, and a part has its share of all.
//
// Note [Flat shards]: what a rank computes with is flattened (row-major) and cut once more, over the ranks
// that compute with the same part. Rank r holds elements [r * stored, (r + 1) * stored) of it; the last ones
// are padded. Every shape shards evenly whatever the number of ranks: the padding is less than `ranks`
// elements, where cutting along the first dimension would pad whole rows (4 kv rows over 64 ranks are 16
// times the bytes). Padding stays zero: its gradient is zero, and AdamW maps zero to zero.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace rondo {

using Sizes = std::vector<std::int64_t>;

// Part `part` of `parts` along `dim`, of each of the equal blocks that lie there.
struct Cut {
  int dim = 0;
  std::int64_t parts = 1;
  std::int64_t part = 0;
  std::int64_t blocks = 1;
};

// Before that, part `part` of `parts` along dimension 0, which they divide: some of the experts.
struct RowPart {
  std::int64_t parts = 1;
  std::int64_t part = 0;
};

// Elements that follow each other both in a rank's shard and in the flattened parameter.
struct ElementRun {
  std::int64_t in_shard = 0;  // the first, counted from the shard's beginning
  std::int64_t in_whole = 0;  // the first, counted in the flattened parameter
  std::int64_t count = 0;
};

class FlatShard {
 public:
  FlatShard() = default;
  // Shard `rank` of `ranks` of what `cut` leaves of `rows` of a parameter of `sizes`. REQUIRES: cut.dim is
  // one of its dimensions, unless there is one part, and not that of rows; cut.blocks divide its size.
  FlatShard(Sizes sizes, const Cut& cut, std::int64_t ranks, std::int64_t rank, const RowPart& rows = {});
  // All of it.
  explicit FlatShard(Sizes sizes) : FlatShard(std::move(sizes), {}, 1, 0) {}

  const Sizes& sizes() const { return sizes_; }  // of the parameter
  const Cut& cut() const { return cut_; }
  const RowPart& rows() const { return rows_; }
  Sizes part_sizes() const;  // of what a rank computes with, padding and all
  std::int64_t part_elements() const;
  std::int64_t stored() const;  // elements that a rank keeps, padding and all
  // The range of the flattened part that is kept here; without the padding behind its end, but with that of
  // the cut.
  std::int64_t begin() const;
  std::int64_t end() const;
  // Ascending in both. What no run has is padding.
  void for_each_run(const std::function<void(const ElementRun&)>& visit) const;

 private:
  Sizes row_sizes() const;  // of its rows

  Sizes sizes_;
  Cut cut_;
  RowPart rows_;
  std::int64_t ranks_ = 1;
  std::int64_t rank_ = 0;
};

std::int64_t element_count(const Sizes& sizes);

}  // namespace rondo

#include "parallel/flat_shard.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "support/error.h"

namespace rondo {

std::int64_t element_count(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

FlatShard::FlatShard(Sizes sizes, const Cut& cut, std::int64_t ranks, std::int64_t rank, const RowPart& rows)
    : sizes_(std::move(sizes)), cut_(cut), rows_(rows), ranks_(ranks), rank_(rank) {
  RONDO_ASSERT(cut_.parts == 1 || (0 <= cut_.dim && cut_.dim < static_cast<int>(sizes_.size())),
               "a parameter is cut along one of its dimensions");
  RONDO_ASSERT(0 <= cut_.part && cut_.part < cut_.parts && 0 <= rank_ && rank_ < ranks_,
               "the part and the rank are in range");
  RONDO_ASSERT(
      cut_.parts == 1 || (cut_.blocks > 0 && sizes_[static_cast<std::size_t>(cut_.dim)] % cut_.blocks == 0),
      "the number of blocks divides the size of the cut dimension");
  RONDO_ASSERT(rows_.parts == 1 || (!sizes_.empty() && sizes_[0] % rows_.parts == 0 && 0 <= rows_.part &&
                                    rows_.part < rows_.parts && (cut_.parts == 1 || cut_.dim > 0)),
               "rows divide into equal parts, and the cut is along another dimension");
}

Sizes FlatShard::row_sizes() const {
  Sizes sizes = sizes_;
  if (rows_.parts > 1) sizes[0] /= rows_.parts;
  return sizes;
}

Sizes FlatShard::part_sizes() const {
  Sizes sizes = row_sizes();
  if (cut_.parts > 1) {
    std::int64_t& cut = sizes[static_cast<std::size_t>(cut_.dim)];
    cut = (cut / cut_.blocks + cut_.parts - 1) / cut_.parts * cut_.blocks;
  }
  return sizes;
}

std::int64_t FlatShard::part_elements() const { return element_count(part_sizes()); }
std::int64_t FlatShard::stored() const { return (part_elements() + ranks_ - 1) / ranks_; }
std::int64_t FlatShard::begin() const { return std::min(part_elements(), rank_ * stored()); }
std::int64_t FlatShard::end() const { return std::min(part_elements(), (rank_ + 1) * stored()); }

PartPlace FlatShard::part_place() const {
  const std::int64_t before = rows_.part * element_count(row_sizes()), elements = part_elements();
  const std::int64_t contiguous = std::max<std::int64_t>(1, elements);
  if (cut_.parts == 1) return {before, contiguous, contiguous, elements};
  const auto dim = static_cast<std::size_t>(cut_.dim);
  const std::int64_t inner = element_count(Sizes(sizes_.begin() + cut_.dim + 1, sizes_.end()));
  // Rows here are those of the matrix [outer * blocks, block size along dim * inner].
  const std::int64_t part_row = part_sizes()[dim] / cut_.blocks * inner,
                     whole_row = sizes_[dim] / cut_.blocks * inner;
  const std::int64_t first = std::min(cut_.part * part_row, whole_row);
  const std::int64_t real = std::min(part_row, whole_row - first);
  if (part_row == elements) return {before + first, contiguous, contiguous, real};
  return {before + first, part_row, whole_row, real};
}

void FlatShard::for_each_run(const std::function<void(const ElementRun&)>& visit) const {
  const std::int64_t begin = this->begin(), end = this->end();
  const auto [first, length, pitch, real] = part_place();
  for (std::int64_t row = begin / length; row * length < end; ++row) {
    const std::int64_t from = std::max(begin, row * length), to = std::min(end, row * length + real);
    if (from < to) visit({from - begin, first + row * pitch + from - row * length, to - from});
  }
}

}  // namespace rondo

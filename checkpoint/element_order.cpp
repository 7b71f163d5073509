#include "checkpoint/element_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/error.h"

namespace rondo::checkpoint {
namespace {

constexpr std::int64_t kMaxParts = 1 << 16;

}  // namespace

std::string problem_of(const ElementOrder& order, const Sizes& shape) {
  if (order == ElementOrder{}) return "";
  const std::int64_t dims = std::ssize(shape);
  if (order.dim < 1 || order.dim >= dims)
    return fmt::format("its cut is along dimension {}, which is not a dimension after the first of its {}",
                       order.dim, dims);
  if (order.parts < 2 || order.parts > kMaxParts)
    return fmt::format("its cut is into {} parts, but must be into 2 to {}", order.parts, kMaxParts);
  if (order.blocks < 1 || order.blocks > kMaxParts)
    return fmt::format("its cut is of {} blocks, but must be of 1 to {}", order.blocks, kMaxParts);
  const std::int64_t size = shape[static_cast<std::size_t>(order.dim)];
  if (size % (order.parts * order.blocks) != 0)
    return fmt::format("its cut is into {} parts{}, which do not divide the size {} of dimension {}",
                       order.parts, order.blocks == 1 ? "" : fmt::format(" of {} blocks", order.blocks), size,
                       order.dim);
  return "";
}

ElementRange range_of(const FlatShard& place) {
  const Cut& cut = place.cut();
  const std::int64_t first = (cut.part * place.rows().parts + place.rows().part) * place.part_elements();
  ElementRange range{{}, first + place.begin(), first + place.end()};
  if (cut.parts > 1 && (cut.dim > 0 || cut.blocks > 1)) {
    range.order = {cut.dim, cut.parts, cut.blocks};
    const std::string problem = problem_of(range.order, place.sizes());
    RONDO_ASSERT(problem.empty(), "a checkpoint cannot store this parameter: " + problem);
  }
  const std::int64_t elements = element_count(place.sizes());  // without the padding of the rows
  range.begin = std::min(range.begin, elements);
  range.end = std::min(range.end, elements);
  return range;
}

OrderedRuns::OrderedRuns(const Sizes& shape, const ElementOrder& order) {
  const auto dim = shape.begin() + order.dim;
  rows_ = element_count(Sizes(shape.begin(), dim)) * order.blocks;
  row_ = element_count(Sizes(dim, shape.end())) / order.blocks;
  part_row_ = row_ / order.parts;
}

void OrderedRuns::for_each_in_part(std::int64_t part, const ElementRun& run,
                                   const std::function<void(const OrderedRun&)>& visit) const {
  const std::int64_t run_end = run.in_whole + run.count;
  for (std::int64_t row = run.count == 0 ? 0 : run.in_whole / row_; row * row_ < run_end; ++row) {
    const std::int64_t first = row * row_ + part * part_row_;
    const std::int64_t from = std::max(run.in_whole, first), to = std::min(run_end, first + part_row_);
    if (from < to)
      visit({(part * rows_ + row) * part_row_ + from - first, run.in_shard + from - run.in_whole, to - from});
  }
}

}  // namespace rondo::checkpoint

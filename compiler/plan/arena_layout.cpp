// Combines two strategies, because a step has two kinds of peaks.
//
// Outward from the peak: the blocks that are live at the peak fill the arena without a gap, with
// the earliest birth on top. From there a walk goes into the future, and then into the past with
// birth and death exchanged, and places blocks in freed space. Saved activations die last in, first
// out, so that freed space remains contiguous; long-lived blocks go to its other end. One sharp
// peak wastes nothing.
//
// Large blocks first: if the live bytes are near the peak repeatedly (at each block's gathers and
// gradient buckets), a hole at one of these peaks costs a whole bucket. So blocks above a share of
// the peak are placed first, from the bottom and largest first, as if there were no small ones. The
// walk then places the small ones from the top. Large blocks that end above the peak get more
// weight, and all large blocks are placed again.
#include "compiler/plan/arena_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

namespace rondo::ir {
namespace {

using Ids = std::vector<std::int32_t>;  // indices into a list of blocks

// A small block is long-lived, and placed apart from the others, above this lifetime. It is longer
// than that of a layer's temporaries and shorter than that of values for another phase.
constexpr std::int32_t kLongLife = 100;
// Attempts until one is good. With a share of 4096, blocks of at least a 4096th of the peak are
// large; with 0, no block is.
constexpr std::array<std::int64_t, 4> kAttempts = {0, 4096, 256, 64};
// Bounds of the rounds of placing large blocks, and of the pairs of overlapping large blocks that
// all rounds visit. An attempt that cannot afford two rounds is skipped.
constexpr std::size_t kRounds = 32, kOverlaps = 2'000'000;

std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }
bool is_good(std::int64_t end, std::int64_t peak) { return end <= peak + peak / 1000; }

// The free parts of an arena, in ascending order. The last one is unbounded.
class FreeSpace {
 public:
  void clear() { parts_.assign(1, {0, std::numeric_limits<std::int64_t>::max()}); }

  // Parts of the range may be occupied already.
  void occupy(std::int64_t begin, std::int64_t end) {
    auto part = first_beyond(begin);
    while (part->begin < end) {
      if (part->begin < begin && part->end > end) {
        const Part above{end, part->end};
        part->end = begin;
        parts_.insert(part + 1, above);
        return;
      }
      if (part->end > end) {
        part->begin = end;
        return;
      }
      if (part->begin < begin) {
        part->end = begin;
        ++part;
      } else {
        part = parts_.erase(part);
      }
    }
  }

  // REQUIRES: the whole range is occupied.
  void release(std::int64_t begin, std::int64_t end) {
    const auto above = first_beyond(begin);
    const bool touches_above = above->begin == end;
    if (above != parts_.begin() && (above - 1)->end == begin) {
      (above - 1)->end = touches_above ? above->end : end;
      if (touches_above) parts_.erase(above);
    } else if (touches_above) {
      above->begin = begin;
    } else {
      parts_.insert(above, {begin, end});
    }
  }

  // Returns the lowest offset from `from` on with this many free bytes.
  std::int64_t lowest(std::int64_t bytes, std::int64_t from) const {
    for (auto part = parts_.begin();; ++part) {
      const std::int64_t offset = std::max(part->begin, from);
      if (part->end - offset >= bytes) return offset;
    }
  }
  // Returns the highest offset with this many free bytes below `limit`, or -1.
  std::int64_t highest(std::int64_t bytes, std::int64_t limit) const {
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      const std::int64_t offset = std::min(part->end, limit) - bytes;
      if (offset >= part->begin) return offset;
    }
    return -1;
  }

 private:
  struct Part {
    std::int64_t begin, end;
  };
  // Returns the first part that ends after `offset`, as the last part does.
  std::vector<Part>::iterator first_beyond(std::int64_t offset) {
    return std::partition_point(parts_.begin(), parts_.end(),
                                [&](const Part& part) { return part.end <= offset; });
  }

  std::vector<Part> parts_ = {{0, std::numeric_limits<std::int64_t>::max()}};
};

struct Peak {
  std::int64_t bytes = 0;
  std::int32_t time = 0;
};
Peak find_peak(const std::vector<Block>& blocks) {
  std::int32_t last = 0;
  for (const Block& block : blocks) last = std::max(last, block.end);
  std::vector<std::int64_t> change(at(last) + 2);
  for (const Block& block : blocks) {
    change[at(block.begin)] += block.bytes;
    change[at(block.end) + 1] -= block.bytes;
  }
  Peak peak;
  std::int64_t live = 0;
  for (std::int32_t time = 0; time <= last; ++time) {
    live += change[at(time)];
    if (live > peak.bytes) peak = {live, time};
  }
  return peak;
}

// Places the large blocks among themselves.
class LargeBlocks {
 public:
  LargeBlocks(std::vector<Block>& blocks, const Ids& large, std::int64_t peak)
      : blocks_(blocks), large_(large), peak_(peak), overlapping_(large.size()), free_(large.size()) {
    find_overlaps();
  }

  bool affordable() const { return 2 * overlaps_ <= kOverlaps; }

  // Alternates rounds by size with rounds by size and lifetime. Each kind adapts its own weights.
  void place() {
    std::array<std::vector<double>, 2> weights;
    for (std::int32_t id : large_) {
      const Block& block = blocks_[at(id)];
      weights[0].push_back(static_cast<double>(block.bytes));
      weights[1].push_back(weights[0].back() * std::sqrt(block.end - block.begin + 1));
    }
    std::vector<std::int64_t> best;
    std::int64_t best_end = std::numeric_limits<std::int64_t>::max();
    const std::size_t rounds = std::min(kOverlaps / (overlaps_ + 1), kRounds);
    for (std::size_t round = 0; round < rounds && best_end > peak_; ++round) {
      const std::int64_t end = place_by(weights[round % 2]);
      if (end < best_end) {
        best_end = end;
        best.clear();
        for (std::int32_t id : large_) best.push_back(blocks_[at(id)].offset);
      }
      for (std::size_t i = 0; i < large_.size(); ++i) {
        const Block& block = blocks_[at(large_[i])];
        if (block.offset + block.bytes > peak_) weights[round % 2][i] *= 4;
      }
    }
    for (std::size_t i = 0; i < best.size(); ++i) blocks_[at(large_[i])].offset = best[i];
  }

 private:
  // Finds the blocks with overlapping lifetimes. They are few, since each takes a share of the
  // peak.
  void find_overlaps() {
    Ids live;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(large_.size()) && affordable(); ++i) {
      const std::int32_t now = blocks_[at(large_[at(i)])].begin;
      std::erase_if(live, [&](std::int32_t other) { return blocks_[at(large_[at(other)])].end < now; });
      for (std::int32_t other : live) {
        overlapping_[at(i)].push_back(other);
        overlapping_[at(other)].push_back(i);
      }
      overlaps_ += live.size();
      live.push_back(i);
    }
  }

  // Places blocks in descending weight at their lowest free offset. Returns the highest end.
  std::int64_t place_by(const std::vector<double>& weights) {
    Ids order(large_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return weights[at(a)] > weights[at(b)]; });
    for (FreeSpace& space : free_) space.clear();
    std::vector<bool> placed(large_.size());
    std::int64_t end = 0;
    for (std::int32_t i : order) {
      Block& block = blocks_[at(large_[at(i)])];
      block.offset = free_[at(i)].lowest(block.bytes, 0);
      placed[at(i)] = true;
      end = std::max(end, block.offset + block.bytes);
      for (std::int32_t other : overlapping_[at(i)])
        if (!placed[at(other)]) free_[at(other)].occupy(block.offset, block.offset + block.bytes);
    }
    return end;
  }

  std::vector<Block>& blocks_;
  const Ids& large_;
  std::int64_t peak_;
  std::vector<Ids> overlapping_;  // by large block: those with an overlapping lifetime
  std::vector<FreeSpace> free_;   // by large block: the space during its lifetime
  std::size_t overlaps_ = 0;
};

// One direction in time from the peak: into the future, or into the past with birth and death
// exchanged. Times are steps from the peak. Has the large blocks that are born in this direction.
class Way {
 public:
  Way(const std::vector<Block>& blocks, const Ids& large, std::int32_t peak, bool future)
      : blocks_(blocks), peak_(peak), future_(future) {
    for (std::int32_t id : large)
      if (birth(id) > 0) large_.push_back(id);
    std::stable_sort(large_.begin(), large_.end(),
                     [&](std::int32_t a, std::int32_t b) { return birth(a) < birth(b); });
    ends_.emplace_back();
    for (std::int32_t id : large_) {
      births_.push_back(birth(id));
      ends_[0].push_back(blocks[at(id)].offset + blocks[at(id)].bytes);
    }
    for (std::size_t width = 1; 2 * width <= large_.size(); width *= 2) {
      const std::vector<std::int64_t>& half = ends_.back();
      std::vector<std::int64_t> whole;
      for (std::size_t i = 0; i + width < half.size(); ++i)
        whole.push_back(std::max(half[i], half[i + width]));
      ends_.push_back(std::move(whole));
    }
  }

  std::int32_t birth(std::int32_t id) const {
    return future_ ? blocks_[at(id)].begin - peak_ : peak_ - blocks_[at(id)].end;
  }
  std::int32_t death(std::int32_t id) const {
    return future_ ? blocks_[at(id)].end - peak_ : peak_ - blocks_[at(id)].begin;
  }

  // Returns the highest end of the large blocks that are born in this direction during the lifetime
  // of `id`.
  std::int64_t ceiling(std::int32_t id) const {
    const auto [first, last] = born_during(id);
    if (first >= last) return 0;
    const auto level = static_cast<std::size_t>(std::bit_width(last - first) - 1);
    return std::max(ends_[level][first], ends_[level][last - (std::size_t{1} << level)]);
  }
  void occupy_born_during(std::int32_t id, FreeSpace& space) const {
    const auto [first, last] = born_during(id);
    for (std::size_t i = first; i < last; ++i) {
      const Block& block = blocks_[at(large_[i])];
      space.occupy(block.offset, block.offset + block.bytes);
    }
  }

 private:
  std::pair<std::size_t, std::size_t> born_during(std::int32_t id) const {
    const auto until = [&](std::int32_t time) {
      return static_cast<std::size_t>(std::upper_bound(births_.begin(), births_.end(), time) -
                                      births_.begin());
    };
    return {until(birth(id)), until(death(id))};
  }

  const std::vector<Block>& blocks_;
  std::int32_t peak_;
  bool future_;
  Ids large_;  // by birth
  std::vector<std::int32_t> births_;
  std::vector<std::vector<std::int64_t>> ends_;  // [k][i]: highest end of large_[i .. i + 2^k)
};

// Places all other blocks around the large ones, outward from the peak.
class Outward {
 public:
  Outward(std::vector<Block>& blocks, const Ids& large, Peak peak)
      : blocks_(blocks),
        is_large_(blocks.size()),
        limit_(peak.bytes),
        ways_{Way(blocks, large, peak.time, true), Way(blocks, large, peak.time, false)} {
    for (std::int32_t id : large) {
      is_large_[at(id)] = true;
      limit_ = std::max(limit_, end_of(id));
    }
  }

  // Returns the end of the highest block.
  std::int64_t run() {
    place_live_at_peak();
    for (const Way& way : ways_) walk(way);
    return limit_;
  }

 private:
  std::int64_t end_of(std::int32_t id) const { return blocks_[at(id)].offset + blocks_[at(id)].bytes; }
  void occupy(std::int32_t id) { free_.occupy(blocks_[at(id)].offset, end_of(id)); }

  // Places the blocks that are live at the peak in the order of their birth, which is that of the
  // list.
  void place_live_at_peak() {
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(blocks_.size()); ++id)
      if (ways_[0].birth(id) <= 0 && ways_[0].death(id) >= 0) at_peak_.push_back(id);
    for (std::int32_t id : at_peak_)
      if (is_large_[at(id)]) occupy(id);
    for (std::int32_t id : at_peak_)
      if (!is_large_[at(id)]) place(id, /*high=*/true);
  }

  void walk(const Way& way) {
    Ids born, dying = at_peak_;
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(blocks_.size()); ++id)
      if (way.birth(id) > 0) born.push_back(id);
    dying.insert(dying.end(), born.begin(), born.end());
    // Large blocks are placed already, so they occupy their space first.
    std::sort(born.begin(), born.end(), [&](std::int32_t a, std::int32_t b) {
      return std::tuple(way.birth(a), !is_large_[at(a)], -way.death(a), a) <
             std::tuple(way.birth(b), !is_large_[at(b)], -way.death(b), b);
    });
    std::sort(dying.begin(), dying.end(),
              [&](std::int32_t a, std::int32_t b) { return way.death(a) < way.death(b); });
    free_.clear();
    for (std::int32_t id : at_peak_) occupy(id);
    auto next = dying.begin();
    for (std::int32_t id : born) {
      for (; way.death(*next) < way.birth(id); ++next)
        free_.release(blocks_[at(*next)].offset, end_of(*next));
      if (is_large_[at(id)]) {
        occupy(id);
      } else {
        place(id, /*high=*/blocks_[at(id)].end - blocks_[at(id)].begin <= kLongLife);
      }
    }
  }

  void place(std::int32_t id, bool high) {
    blocks_[at(id)].offset = find_place(id, high);
    limit_ = std::max(limit_, end_of(id));
    occupy(id);
  }

  std::int64_t find_place(std::int32_t id, bool high) const {
    const std::int64_t bytes = blocks_[at(id)].bytes;
    const std::int64_t ceiling = std::max(ways_[0].ceiling(id), ways_[1].ceiling(id));
    std::int64_t offset = high ? free_.highest(bytes, limit_) : free_.lowest(bytes, ceiling);
    if (offset >= ceiling && offset + bytes <= limit_) return offset;
    FreeSpace space = free_;
    for (const Way& way : ways_) way.occupy_born_during(id, space);
    offset = high ? space.highest(bytes, limit_) : -1;
    return offset >= 0 ? offset : space.lowest(bytes, 0);
  }

  std::vector<Block>& blocks_;
  std::vector<bool> is_large_;
  Ids at_peak_;         // live at the peak
  FreeSpace free_;      // at the current time
  std::int64_t limit_;  // the arena's end so far
  std::array<Way, 2> ways_;
};

}  // namespace

ArenaSize lay_out(std::vector<Block>& blocks) {
  const Peak peak = find_peak(blocks);
  std::vector<Block> best;
  std::int64_t best_end = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t share : kAttempts) {
    std::vector<Block> attempt = blocks;
    Ids large;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (blocks[i].bytes * share >= peak.bytes) large.push_back(static_cast<std::int32_t>(i));
    LargeBlocks among(attempt, large, peak.bytes);
    if (!among.affordable()) continue;
    among.place();
    const std::int64_t end = Outward(attempt, large, peak).run();
    if (end < best_end) {
      best_end = end;
      best = std::move(attempt);
    }
    if (is_good(best_end, peak.bytes)) break;
  }
  blocks = std::move(best);
  return {best_end, peak.bytes};
}

}  // namespace rondo::ir

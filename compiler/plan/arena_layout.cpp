// Two ideas, because a step has two kinds of peaks.
//
// Outward from the peak: the blocks that stand at the peak fill the arena without a gap, those with the
// earliest birth on top. From there the walk goes into the future, and then into the past with birth and
// death exchanged; what is met goes where something else died. Saved activations die last in, first out, so
// that the freed space stays in one piece; what lives long goes to the other end of it. One sharp peak leaves
// no waste at all.
//
// Large blocks first: where the bytes alive come near the peak again and again (each block's gathers and
// gradient buckets), a hole at one of these peaks costs a whole bucket. So blocks of more than a share of the
// peak are placed first, from the bottom and largest first, as if the small ones did not exist; the walk
// fills in the small ones from the top. Those that end beyond the peak were placed too late: they go earlier
// and all are placed again.
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

// A block that is not large is long-lived, and kept apart from the others, if it lives longer than this: more
// than a layer's temporaries do, less than what waits for another phase.
constexpr std::int32_t kLongLife = 100;
// Attempts, until one is good: blocks of at least a 4096th of the peak are large, ...; 0: none is.
constexpr std::array<std::int64_t, 4> kAttempts = {0, 4096, 256, 64};
// How often large blocks are placed anew, and how many meetings of two large blocks all of that may cost. An
// attempt that cannot afford two rounds is not made.
constexpr std::size_t kRounds = 32, kMeetings = 2'000'000;

std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }
bool is_good(std::int64_t end, std::int64_t peak) { return end <= peak + peak / 1000; }

// The free parts of an arena, lowest first. The last one has no end.
class FreeSpace {
 public:
  void clear() { parts_.assign(1, {0, std::numeric_limits<std::int64_t>::max()}); }

  // Some of it may be taken already.
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

  // REQUIRES: all of it is taken.
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

  // The lowest offset, from `from` on, with so many free bytes.
  std::int64_t lowest(std::int64_t bytes, std::int64_t from) const {
    for (auto part = parts_.begin();; ++part) {
      const std::int64_t offset = std::max(part->begin, from);
      if (part->end - offset >= bytes) return offset;
    }
  }
  // The highest offset with so many free bytes below `limit`, or -1.
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
  // The first part that ends beyond `offset`; the last one does.
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
      : blocks_(blocks), large_(large), peak_(peak), met_(large.size()), free_(large.size()) {
    meet();
  }

  bool affordable() const { return 2 * meetings_ <= kMeetings; }

  // Rounds by size and rounds by size and life take turns, and each learns from its own.
  void place() {
    std::array<std::vector<double>, 2> weights;
    for (std::int32_t id : large_) {
      const Block& block = blocks_[at(id)];
      weights[0].push_back(static_cast<double>(block.bytes));
      weights[1].push_back(weights[0].back() * std::sqrt(block.end - block.begin + 1));
    }
    std::vector<std::int64_t> best;
    std::int64_t best_end = std::numeric_limits<std::int64_t>::max();
    const std::size_t rounds = std::min(kMeetings / (meetings_ + 1), kRounds);
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
  // Which blocks live at one time with which. Few do: each takes a share of the peak.
  void meet() {
    Ids alive;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(large_.size()) && affordable(); ++i) {
      const std::int32_t now = blocks_[at(large_[at(i)])].begin;
      std::erase_if(alive, [&](std::int32_t other) { return blocks_[at(large_[at(other)])].end < now; });
      for (std::int32_t other : alive) {
        met_[at(i)].push_back(other);
        met_[at(other)].push_back(i);
      }
      meetings_ += alive.size();
      alive.push_back(i);
    }
  }

  // Heaviest first, each at its lowest free offset. Returns the end of the highest.
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
      for (std::int32_t other : met_[at(i)])
        if (!placed[at(other)]) free_[at(other)].occupy(block.offset, block.offset + block.bytes);
    }
    return end;
  }

  std::vector<Block>& blocks_;
  const Ids& large_;
  std::int64_t peak_;
  std::vector<Ids> met_;         // of each large block: those that live at a time with it
  std::vector<FreeSpace> free_;  // of each large block: during its life
  std::size_t meetings_ = 0;
};

// One way in time from the peak: into the future, or into the past with birth and death exchanged. Times are
// steps from the peak. Knows the large blocks that are born on the way.
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

  // No large block that is born on this way during the life of `id` reaches beyond this offset.
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
  std::vector<std::vector<std::int64_t>> ends_;  // ends_[k][i]: the highest end of large_[i .. i + 2^k)
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
    place_standing();
    for (const Way& way : ways_) walk(way);
    return limit_;
  }

 private:
  std::int64_t end_of(std::int32_t id) const { return blocks_[at(id)].offset + blocks_[at(id)].bytes; }
  void occupy(std::int32_t id) { free_.occupy(blocks_[at(id)].offset, end_of(id)); }

  // In the order of their birth, which is the order of the blocks.
  void place_standing() {
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(blocks_.size()); ++id)
      if (ways_[0].birth(id) <= 0 && ways_[0].death(id) >= 0) standing_.push_back(id);
    for (std::int32_t id : standing_)
      if (is_large_[at(id)]) occupy(id);
    for (std::int32_t id : standing_)
      if (!is_large_[at(id)]) place(id, /*high=*/true);
  }

  void walk(const Way& way) {
    Ids born, dying = standing_;
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(blocks_.size()); ++id)
      if (way.birth(id) > 0) born.push_back(id);
    dying.insert(dying.end(), born.begin(), born.end());
    // Large ones have their place already, so they take it first.
    std::sort(born.begin(), born.end(), [&](std::int32_t a, std::int32_t b) {
      return std::tuple(way.birth(a), !is_large_[at(a)], -way.death(a), a) <
             std::tuple(way.birth(b), !is_large_[at(b)], -way.death(b), b);
    });
    std::sort(dying.begin(), dying.end(),
              [&](std::int32_t a, std::int32_t b) { return way.death(a) < way.death(b); });
    free_.clear();
    for (std::int32_t id : standing_) occupy(id);
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
  Ids standing_;        // at the peak
  FreeSpace free_;      // now
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

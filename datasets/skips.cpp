#include "datasets/skips.h"

#include <algorithm>

namespace rondo {

SampleSkips::SampleSkips(std::vector<SampleRange> ranges) {
  std::ranges::sort(ranges, {}, &SampleRange::first);
  for (const SampleRange& range : ranges)
    if (!ranges_.empty() && range.first <= ranges_.back().end)
      ranges_.back().end = std::max(ranges_.back().end, range.end);
    else
      ranges_.push_back(range);
}

std::int64_t SampleSkips::sample_of(std::int64_t kept) const {
  std::int64_t sample = kept;
  for (const SampleRange& range : ranges_) {
    if (sample < range.first) break;
    sample += range.end - range.first;
  }
  return sample;
}

std::int64_t SampleSkips::kept_before(std::int64_t sample) const {
  std::int64_t left_out = 0;
  for (const SampleRange& range : ranges_)
    left_out += std::clamp(sample, range.first, range.end) - range.first;
  return sample - left_out;
}

}  // namespace rondo

// Samples that a run leaves out, such as those before which its loss rose.
#pragma once

#include <cstdint>
#include <vector>

namespace rondo {

// Global samples [first, end) of the data law (loader.h).
struct SampleRange {
  std::int64_t first = 0, end = 0;
};

// Numbers the samples that are kept, from 0 on.
class SampleSkips {
 public:
  // REQUIRES: 0 <= first <= end. Ranges may overlap, in any order.
  explicit SampleSkips(std::vector<SampleRange> ranges);

  // Returns them ascending and disjoint.
  const std::vector<SampleRange>& ranges() const { return ranges_; }
  // Returns the global number of kept sample `kept`.
  std::int64_t sample_of(std::int64_t kept) const;
  // Returns the number of kept samples before a global sample.
  std::int64_t kept_before(std::int64_t sample) const;

 private:
  std::vector<SampleRange> ranges_;
};

}  // namespace rondo

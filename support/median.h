// The middle of numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace rondo {

// The mean of both middle ones where their number is even. REQUIRES: there is one.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace rondo

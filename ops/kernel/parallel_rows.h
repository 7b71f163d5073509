// Loops over rows and elements on the CPU, on LibTorch's threads. No result may depend on how many there are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace rondo {

// Calls run(begin, end) for runs that make up [0, count), as long as `grain` where there is more than one.
void parallel_runs(std::int64_t count, std::int64_t grain,
                   const std::function<void(std::int64_t begin, std::int64_t end)>& run);

// Calls f(row) for each row; as many are a task as make it worth a thread.
template <class F>
void for_each_row(std::int64_t rows, std::int64_t elements_of_row, const F& f) {
  constexpr std::int64_t kElementsOfTask = 16384;
  const std::int64_t grain = kElementsOfTask / std::max<std::int64_t>(1, elements_of_row);
  parallel_runs(rows, std::max<std::int64_t>(1, grain), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) f(row);
  });
}

// Calls f(i) for each element, where that is some arithmetic.
template <class F>
void for_each_element(std::int64_t count, const F& f) {
  parallel_runs(count, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

}  // namespace rondo

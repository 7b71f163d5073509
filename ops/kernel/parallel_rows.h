// Loops over rows and elements on the CPU, on LibTorch's threads. Results must not depend on the
// number of threads.
//
// The program is for any x86-64, whose vectors hold four floats. So loops are compiled for several
// processors and use the widest vectors of ops/kernel/instructions.h. REQUIRES: compiled without
// contraction of products and sums (ops/CMakeLists.txt). Then all variants give the same bits,
// provided that a loop defines the lanes of its sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "ops/kernel/instructions.h"

namespace rondo {

// Calls f(). Functions that f calls are compiled with it if their bodies are visible.
#ifdef __x86_64__
template <class F>
[[gnu::flatten, gnu::target("avx2,fma")]] void call_avx2(const F& f) {
  f();
}
template <class F>
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512vl,avx512dq,fma,prefer-vector-width=512")]] void
call_avx512(const F& f) {
  f();
}
template <class F>
void with_best_vectors(const F& f) {
  static const VectorInstructions best = best_vector_instructions();
  if (best == VectorInstructions::avx512) return call_avx512(f);
  if (best == VectorInstructions::avx2) return call_avx2(f);
  f();
}
#else
template <class F>
void with_best_vectors(const F& f) {
  f();
}
#endif

// Calls run(begin, end) for runs that partition [0, count). If there are several, each has `grain`
// elements or more.
void parallel_runs(std::int64_t count, std::int64_t grain,
                   const std::function<void(std::int64_t begin, std::int64_t end)>& run);

// Calls f(i) for each i of [0, count), at least `grain` of them per task.
template <class F>
void parallel_for_each(std::int64_t count, std::int64_t grain, const F& f) {
  parallel_runs(count, grain, [&f](std::int64_t begin, std::int64_t end) {
    with_best_vectors([&f, begin, end] {
      for (std::int64_t i = begin; i < end; ++i) f(i);
    });
  });
}

// Calls f(row) for each row, with enough rows per task to be worth a thread.
template <class F>
void for_each_row(std::int64_t rows, std::int64_t elements_of_row, const F& f) {
  constexpr std::int64_t kElementsOfTask = 16384;
  const std::int64_t grain = kElementsOfTask / std::max<std::int64_t>(1, elements_of_row);
  parallel_for_each(rows, std::max<std::int64_t>(1, grain), f);
}

// Calls f(i) for each element; for a few arithmetic operations per element.
template <class F>
void for_each_element(std::int64_t count, const F& f) {
  parallel_for_each(count, 4096, f);
}

}  // namespace rondo

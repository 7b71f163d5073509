#include "ops/sums_of_squares/sums_of_squares.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "ops/kernel/check_operand.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/tensor_chunks.h"
#include "ops/kernel/with_dtype.h"
#include "ops/sums_of_squares/sums_of_squares_math.h"

namespace rondo {
namespace {

using squares::kChunk, squares::kLanes;

// Sums one chunk's elements, or the sums of all chunks.
template <class T, class Addend>
double add_lanes(const T* x, std::int64_t count, const Addend& addend) {
  double lanes[kLanes] = {};
  for (std::int64_t row = 0; row < count; row += kLanes) {
    const auto width = static_cast<int>(std::min<std::int64_t>(kLanes, count - row));
    for (int l = 0; l < width; ++l) lanes[l] += addend(x[row + l]);
  }
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

double sum_of_chunk(const at::Tensor& x, const TensorChunk& chunk) {
  double sum = 0;
  with_dtype(x, "sums_of_squares", [&](auto type) {
    using T = decltype(type);
    const T* const from = x.const_data_ptr<T>() + chunk.first;
    with_best_vectors([&] {
      sum = add_lanes(from, chunk.count,
                      [](T element) { return squares::square(static_cast<double>(element)); });
    });
  });
  return sum;
}

at::Tensor sums_of_squares_cpu(at::TensorList tensors) {
  const at::Tensor sums = sums_of_squares_result(tensors);
  const std::vector<at::Tensor> contiguous = contiguous_of(tensors);
  const std::vector<TensorChunk> chunks = tensor_chunks(contiguous, kChunk);
  std::vector<double> of_chunks(chunks.size());
  for_each_chunk_of(
      chunks, [&](std::size_t i) { of_chunks[i] = sum_of_chunk(contiguous[chunks[i].tensor], chunks[i]); });
  double* next = sums.mutable_data_ptr<double>();
  const double* of_chunk = of_chunks.data();
  for (const at::Tensor& x : contiguous) {
    const std::int64_t count = squares::chunks_of(x.numel());
    *next++ = add_lanes(of_chunk, count, [](double one) { return one; });
    of_chunk += count;
  }
  return sums;
}

}  // namespace

at::Tensor sums_of_squares(at::TensorList tensors) {
  static const auto handle = op_handle<at::Tensor(at::TensorList)>("rondo::sums_of_squares");
  return handle.call(tensors);
}

at::Tensor sums_of_squares_result(at::TensorList tensors) {
  for (const at::Tensor& x : tensors) check_float("sums_of_squares", "x", x);
  return at::empty({std::ssize(tensors)}, tensors.at(0).options().dtype(at::kDouble));
}

TORCH_LIBRARY_FRAGMENT(rondo, m) { m.def("sums_of_squares(Tensor[] x) -> Tensor"); }
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("sums_of_squares", &sums_of_squares_result); }
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("sums_of_squares", &sums_of_squares_cpu); }

}  // namespace rondo

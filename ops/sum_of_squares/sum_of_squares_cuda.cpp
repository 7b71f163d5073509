#include "ops/sum_of_squares/sum_of_squares_cuda.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/kernel/launch.h"
#include "ops/sum_of_squares/sum_of_squares.h"
#include "ops/sum_of_squares/sum_of_squares_math.h"

namespace rondo {
namespace {

at::Tensor sum_of_squares_cuda(const at::Tensor& x_in) {
  const cuda::Launch launch(x_in, "sum_of_squares");
  const at::Tensor sum = sum_of_squares_result(x_in);
  if (x_in.numel() == 0) return sum.zero_();
  const at::Tensor x = x_in.contiguous();
  const at::Tensor chunk_sums = at::empty({squares::chunks_of(x.numel())}, sum.options());
  cuda::sum_of_squares(launch.element(x), x.const_data_ptr(), x.numel(),
                       chunk_sums.mutable_data_ptr<double>(), sum.mutable_data_ptr<double>(),
                       launch.stream());
  launch.check();
  return sum;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) { m.impl("sum_of_squares", &sum_of_squares_cuda); }

}  // namespace rondo

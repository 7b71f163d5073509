#include "ops/rope/rope_cuda.h"

#include <torch/library.h>

#include "ops/kernel/launch.h"
#include "ops/kernel/rows.h"
#include "ops/rope/rope.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

Tensor rope_cuda(const Tensor& x_in, const Tensor& cos_in, const Tensor& sin_in, bool interleaved,
                 bool inverse) {
  const cuda::Launch launch(x_in, "rope");
  const Tensor y = rope_result(x_in, cos_in, sin_in);
  if (y.numel() == 0) return y;
  RONDO_ASSERT(x_in.size(1) * x_in.size(2) * (x_in.size(3) / 16 + 2) < std::int64_t{1} << 31,
               "rope: a row is too long");
  const Tensor x = with_contiguous_rows(x_in);
  const Tensor cos = cos_in.contiguous(), sin = sin_in.contiguous();
  const cuda::RopeHeads heads{x.size(0),   x.size(1),   x.size(2),   x.size(3),         2 * cos.size(3),
                              x.stride(0), x.stride(1), x.stride(2), launch.element(x), cos.size(0) == 1};
  RONDO_ASSERT(x.const_data_ptr() != y.const_data_ptr() || heads.rotated <= cuda::kMaxRotatedInPlace,
               "rope: a head is too wide to be rotated in place");
  cuda::rope(heads, x.const_data_ptr(), cos.const_data_ptr<float>(), sin.const_data_ptr<float>(), interleaved,
             inverse, y.mutable_data_ptr(), launch.stream());
  launch.check();
  return y;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) { m.impl("rope", &rope_cuda); }

}  // namespace rondo

#include "ops/latent_keys/latent_keys_cuda.h"

#include <torch/library.h>

#include <algorithm>

#include "ops/kernel/launch.h"
#include "ops/kernel/rows.h"
#include "ops/latent_keys/latent_keys.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

cuda::StridedHeads strided_heads(const Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}

// The sizes of k or its gradient and of kv or its gradient.
cuda::LatentHeads latent_heads(const cuda::Launch& launch, const Tensor& k, const Tensor& kv,
                               std::int64_t plain) {
  const std::int64_t widest = std::max(k.size(3), kv.size(3));
  RONDO_ASSERT(k.size(1) * (k.size(2) + 1) * (widest / 16 + 2) < std::int64_t{1} << 31,
               "latent_keys: a row is too long");
  return {k.size(0), k.size(1), k.size(2), plain, k.size(3) - plain, kv.size(3) - plain, launch.element(k)};
}

Tensor latent_keys_cuda(const Tensor& kv_in, const Tensor& rotated_in, std::int64_t plain) {
  const cuda::Launch launch(kv_in, "latent_keys");
  const Tensor k = latent_keys_result(kv_in, rotated_in, plain);
  if (k.numel() == 0) return k;
  const Tensor kv = with_contiguous_rows(kv_in), rotated = with_contiguous_rows(rotated_in);
  cuda::latent_keys(latent_heads(launch, k, kv, plain), strided_heads(kv), strided_heads(rotated),
                    k.mutable_data_ptr(), launch.stream());
  launch.check();
  return k;
}

std::tuple<Tensor, Tensor> latent_keys_backward_cuda(const Tensor& grad_k_in, const Tensor& grad_v_in,
                                                     std::int64_t plain) {
  const cuda::Launch launch(grad_k_in, "latent_keys_backward");
  std::tuple<Tensor, Tensor> gradients = latent_keys_gradients(grad_k_in, grad_v_in, plain);
  const auto& [grad_kv, grad_rotated] = gradients;
  if (grad_kv.numel() == 0) {
    grad_rotated.zero_();
    return gradients;
  }
  const Tensor grad_k = with_contiguous_rows(grad_k_in), grad_v = with_contiguous_rows(grad_v_in);
  cuda::latent_keys_backward(latent_heads(launch, grad_k, grad_kv, plain), strided_heads(grad_k),
                             strided_heads(grad_v), grad_kv.mutable_data_ptr(),
                             grad_rotated.mutable_data_ptr(), launch.stream());
  launch.check();
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("latent_keys", &latent_keys_cuda);
  m.impl("latent_keys_backward", &latent_keys_backward_cuda);
}

}  // namespace rondo

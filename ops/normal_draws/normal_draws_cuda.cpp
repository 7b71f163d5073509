#include "ops/normal_draws/normal_draws_cuda.h"

#include <torch/library.h>

#include "ops/kernel/launch.h"
#include "ops/normal_draws/normal_draws.h"

namespace rondo {
namespace {

void draw_cuda(at::Tensor& x, double std, double low, double width, std::int64_t seed, std::int64_t stream,
               std::int64_t first) {
  if (x.numel() == 0) return;
  const cuda::Launch launch(x, "draw_");
  const NormalDraws draws{std, low, width, static_cast<std::uint64_t>(seed),
                          static_cast<std::uint64_t>(stream)};
  cuda::draw(launch.element(x), draws, first, x.numel(), x.mutable_data_ptr(), launch.stream());
  launch.check();
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) { m.impl("draw_", &draw_cuda); }

}  // namespace rondo

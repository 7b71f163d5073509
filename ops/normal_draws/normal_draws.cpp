#include "ops/normal_draws/normal_draws.h"

#include <torch/library.h>

#include <algorithm>

#include "ops/kernel/op_handle.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/with_dtype.h"

namespace rondo {
namespace {

using at::Tensor;

constexpr std::int64_t kBlock = 256;

// Sets out[i] to the draw of element first + i for i < count <= kBlock, with the bits of
// NormalDraws::at. Loops without branches are vectorized. So every element gets the central
// formula, and the tails, about one element in seven, are gathered for theirs.
template <class T>
void draw_block(const NormalDraws& draws, std::int64_t first, std::int64_t count, T* out) {
  double p[kBlock], quantiles[kBlock];
  for (std::int64_t i = 0; i < count; ++i) p[i] = draws.probability(first + i);
  for (std::int64_t i = 0; i < count; ++i) quantiles[i] = central_quantile(p[i]);

  std::int64_t tails = 0, places[kBlock];
  double tail_p[kBlock], t[kBlock], tail_quantiles[kBlock];
  for (std::int64_t i = 0; i < count; ++i) {
    places[tails] = i;
    tail_p[tails] = p[i];
    tails += is_central(p[i]) ? 0 : 1;
  }
  for (std::int64_t k = 0; k < tails; ++k) t[k] = tail_argument(tail_p[k]);
  for (std::int64_t k = 0; k < tails; ++k) tail_quantiles[k] = near_tail_quantile(tail_p[k], t[k]);
  for (std::int64_t k = 0; k < tails; ++k)
    quantiles[places[k]] = t[k] <= 5.0 ? tail_quantiles[k] : far_tail_quantile(tail_p[k], t[k]);

  for (std::int64_t i = 0; i < count; ++i)
    out[i] = static_cast<T>(static_cast<float>(draws.std * quantiles[i]));
}

void draw_cpu(Tensor& x, double std, double low, double width, std::int64_t seed, std::int64_t stream,
              std::int64_t first) {
  const NormalDraws draws{std, low, width, static_cast<std::uint64_t>(seed),
                          static_cast<std::uint64_t>(stream)};
  with_dtype(x, "draw_", [&](auto type) {
    using T = decltype(type);
    T* const out = x.data_ptr<T>();
    const std::int64_t count = x.numel();
    for_each_row((count + kBlock - 1) / kBlock, kBlock, [&](std::int64_t block) {
      const std::int64_t begin = block * kBlock;
      draw_block(draws, first + begin, std::min(kBlock, count - begin), out + begin);
    });
  });
}

}  // namespace

void draw_normal(Tensor x, const NormalDraws& draws, std::int64_t first) {
  static const auto handle = op_handle<decltype(draw_cpu)>("rondo::draw_");
  handle.call(x, draws.std, draws.low, draws.width, static_cast<std::int64_t>(draws.seed),
              static_cast<std::int64_t>(draws.stream), first);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("draw_(Tensor(a!) x, float std, float low, float width, int seed, int stream, int first) -> ()");
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("draw_", &draw_cpu); }

}  // namespace rondo

#include "ops/normal_draws/normal_draws.h"

#include <torch/library.h>

#include "ops/kernel/op_handle.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/with_dtype.h"

namespace rondo {
namespace {

using at::Tensor;

void draw_cpu(Tensor& x, double std, double low, double width, std::int64_t seed, std::int64_t stream,
              std::int64_t first) {
  const NormalDraws draws{std, low, width, static_cast<std::uint64_t>(seed),
                          static_cast<std::uint64_t>(stream)};
  with_dtype(x, "draw_", [&](auto type) {
    using T = decltype(type);
    T* const out = x.data_ptr<T>();
    for_each_element(
        x.numel(), [&](std::int64_t i) { out[i] = static_cast<T>(static_cast<float>(draws.at(first + i))); });
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

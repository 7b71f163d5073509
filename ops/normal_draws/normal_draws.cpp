
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "ops/normal_draws/normal_draws.h"

namespace rondo {
namespace {

using at::Tensor;

void draw_cpu(Tensor& x, double std, double low, double width, std::int64_t seed, std::int64_t stream,
              std::int64_t first) {
  const NormalDraws draws{std, low, width, static_cast<std::uint64_t>(seed),
                          static_cast<std::uint64_t>(stream)};
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "draw_", [&] {
    scalar_t* const out = x.data_ptr<scalar_t>();
    at::parallel_for(0, x.numel(), 4096, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i)
        out[i] = static_cast<scalar_t>(static_cast<float>(draws.at(first + i)));
    });
  });
}

}  // namespace

void draw_normal(Tensor x, const NormalDraws& draws, std::int64_t first) {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("rondo::draw_", "").typed<decltype(draw_cpu)>();
  handle.call(x, draws.std, draws.low, draws.width, static_cast<std::int64_t>(draws.seed),
              static_cast<std::int64_t>(draws.stream), first);
}

// x[i] is the draw of element first + i. One op, so that a device draws where its memory is.
TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("draw_(Tensor(a!) x, float std, float low, float width, int seed, int stream, int first) -> ()");
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("draw_", &draw_cpu); }

}  // namespace rondo

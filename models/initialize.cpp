#include "models/initialize.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cmath>

#include "models/normal_draws.h"
#include "parallel/error.h"

namespace rondo {
namespace {

using at::Tensor;

// FNV-1a, 64 bits.
std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

NormalDraws draws_of(const Init& init, std::uint64_t seed, std::string_view name) {
  NormalDraws draws{.std = init.value, .low = 0.0, .width = 1.0, .seed = seed, .stream = hash_name(name)};
  if (init.kind == Init::Kind::truncated_normal) {
    draws.low = 0.5 * std::erfc(init.cut / init.value / std::sqrt(2.0));
    draws.width = 1.0 - 2.0 * draws.low;
  }
  return draws;
}

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

void draw(Tensor x, const NormalDraws& draws, std::int64_t first) {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("rondo::draw_", "").typed<decltype(draw_cpu)>();
  handle.call(x, draws.std, draws.low, draws.width, static_cast<std::int64_t>(draws.seed),
              static_cast<std::int64_t>(draws.stream), first);
}

}  // namespace

void initialize(Tensor& shard, const Init& init, std::uint64_t seed, std::string_view name,
                const FlatShard& place) {
  RONDO_ASSERT(shard.is_contiguous() && shard.numel() >= place.end() - place.begin(),
               "a shard is contiguous and has room for what lies there");
  const NormalDraws draws = draws_of(init, seed, name);
  const Tensor elements = shard.view({-1});
  shard.zero_();
  place.for_each_run([&](const ElementRun& run) {
    const Tensor part = elements.narrow(0, run.in_shard, run.count);
    if (init.kind == Init::Kind::constant)
      part.fill_(static_cast<float>(init.value));
    else
      draw(part, draws, run.in_whole);
  });
}

// x[i] is the draw of element first + i. One op, so that a device draws where its memory is.
TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("draw_(Tensor(a!) x, float std, float low, float width, int seed, int stream, int first) -> ()");
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("draw_", &draw_cpu); }

}  // namespace rondo

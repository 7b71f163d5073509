#include "models/parts/initialize.h"

#include <cmath>

#include "ops/normal_draws/normal_draws.h"
#include "ops/random/philox.h"
#include "support/error.h"

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
      draw_normal(part, draws, run.in_whole);
  });
}

std::int64_t rounding_stream(std::uint64_t seed, std::string_view name) {
  const std::uint64_t hash = hash_name(name);
  const PhiloxWords words =
      philox<10>({{static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32), 0, 0}},
                 static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  return static_cast<std::int64_t>(std::uint64_t{words.at[1]} << 32 | words.at[0]);
}

}  // namespace rondo

// Layout-independent initial weights. Each element depends only on (seed, parameter name, global
// flat index). It is drawn with the counter-based Philox4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", 2011). The inverse distribution function (Wichura, AS 241, 1988)
// maps it to a normal.
//
// The code uses only integer operations and correctly rounded + - * / and sqrt: it implements
// the logarithm itself and contracts nothing. Every compiler and device thus computes the same
// bits: ops/normal_draws/normal_draws.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "models/parts/decoder.h"
#include "parallel/flat_shard.h"

namespace rondo {

// Fills `shard` with the parameter's elements at `place`, and padding with zeros. `shard` is fp32,
// bf16 or fp64 (with the fp32 values), contiguous, on the CPU or a CUDA device.
void initialize(at::Tensor& shard, const Init& init, std::uint64_t seed, std::string_view name,
                const FlatShard& place);

// Returns the stream of the draws that round a parameter and its moments
// (ops/random/stochastic_rounding.h).
std::int64_t rounding_stream(std::uint64_t seed, std::string_view name);

}  // namespace rondo

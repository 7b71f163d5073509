// Initial weights that do not depend on the layout: every element is a function of (seed, parameter name,
// global flat index) alone, drawn with the counter-based Philox4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", 2011) and turned into a normal by the inverse distribution function (Wichura,
// AS 241, 1988).
//
// Only integer operations and correctly rounded + - * / and sqrt are used (the logarithm is spelled out, and
// nothing is contracted), so that another compiler or device has the same bits:
// ops/normal_draws/normal_draws.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "models/parts/decoder.h"
#include "parallel/flat_shard.h"

namespace rondo {

// Fills `shard`, fp32, bf16 or fp64 (the numbers of fp32), contiguous, on the CPU or a CUDA device, with the
// elements of the parameter that `place` puts there, and zeros where there is padding.
void initialize(at::Tensor& shard, const Init& init, std::uint64_t seed, std::string_view name,
                const FlatShard& place);

}  // namespace rondo

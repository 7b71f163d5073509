// The CUDA kernels of ops/grouped_sum/grouped_sum.h: plain addresses of contiguous memory, f32 or
// bf16, checked by the caller. They run on `stream`, do not wait and allocate no memory. The ends
// of runs, `ends` [runs], are read on the device. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

struct GroupedRows {
  std::int64_t rows, width, runs;  // at least 1 each
  Element element;
  const void* x;  // [rows, width]
  const std::int32_t* ends;
};

// bias [runs, width]; result [rows, width], which may be x.
void grouped_add(const GroupedRows& in, const void* bias, void* result, cudaStream_t stream);

// parts f32 [grouped_sum_parts(in), width], overwritten; result [runs, width].
std::int64_t grouped_sum_parts(const GroupedRows& in);
void grouped_sum(const GroupedRows& in, float* parts, void* result, cudaStream_t stream);

}  // namespace rondo::cuda

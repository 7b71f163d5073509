// The CUDA kernels of ops/sort_slots/sort_slots.h: plain addresses of contiguous memory. They run
// on `stream`, do not wait and allocate no memory. A key out of range traps. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rondo::cuda {

constexpr std::int64_t kMaxKinds = 1024;

// keys, order and place [slots], counts [kinds], 1 <= kinds <= kMaxKinds; `workspace`
// [sort_slots_workspace(slots, kinds)] is overwritten.
std::int64_t sort_slots_workspace(std::int64_t slots, std::int64_t kinds);
void sort_slots(const std::int64_t* keys, std::int64_t slots, std::int64_t kinds, std::int32_t* workspace,
                std::int64_t* order, std::int64_t* place, std::int32_t* counts, cudaStream_t stream);

}  // namespace rondo::cuda

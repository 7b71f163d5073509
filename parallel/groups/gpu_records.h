// LibTorch's own GPU records as text for the files of a run. The build picks one of two
// implementations: cuda/gpu_records.cpp, or without_cuda.cpp, where every text is
// empty. Thread-safe.
#pragma once

#include <cstddef>
#include <string>

namespace rondo {

// Sets how many of the latest NCCL collectives LibTorch's flight recorder keeps. A
// TORCH_FR_BUFFER_SIZE above 0 in the environment wins. REQUIRES: after the first Gloo group and
// before the first NCCL group, since each recorder reads its size at first use.
void size_nccl_record(std::size_t entries);
// Returns the record as one JSON object in LibTorch's format. It has no collectives inside of
// replayed CUDA graphs. Returns "" before the first group.
std::string nccl_record_json();

// Returns the segments and blocks of the caching allocator as one JSON object:
//   segments: device, address, total_bytes, allocated_bytes, active_bytes, stream, private_pool,
//             expandable, blocks
//   blocks:   bytes, requested_bytes, state ("allocated", "pending free", "free")
// Returns "" before the first tensor on a GPU.
std::string gpu_memory_json();

}  // namespace rondo

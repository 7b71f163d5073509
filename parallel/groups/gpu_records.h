// What LibTorch's GPU half records by itself, as text for our files. Two implementations, of which the build
// picks one: cuda/gpu_records.cpp, and without_cuda.cpp, where every text is empty. Any thread.
#pragma once

#include <cstddef>
#include <string>

namespace rondo {

// How many of the latest collectives over NCCL LibTorch's flight recorder keeps. REQUIRES: after the first
// group of Gloo's, before the first of NCCL's; each reads its size where it is first used. The environment's
// own TORCH_FR_BUFFER_SIZE above 0 wins.
void size_nccl_record(std::size_t entries);
// That record as one JSON object of LibTorch's own format. Collectives inside a replayed CUDA graph are not
// in it. Empty before the first group.
std::string nccl_record_json();

// The caching allocator's segments and blocks, one JSON object:
//   segments: device, address, total_bytes, allocated_bytes, active_bytes, stream, private_pool, expandable,
//             blocks: bytes, requested_bytes, state ("allocated", "pending free", "free")
// Empty before the first tensor on a GPU.
std::string gpu_memory_json();

}  // namespace rondo

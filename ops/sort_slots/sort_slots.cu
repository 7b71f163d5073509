// A stable counting sort. A block takes 2,048 consecutive slots, a warp 256 of them, 32 at a time.
// The first kernel counts the keys of each block, the second adds the counts of earlier blocks, and
// the third counts again by warp and places the slots. No addition is atomic: lanes with equal keys
// find each other, and one of them adds for all.
#include "ops/kernel/element.cuh"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/sort_slots/sort_slots_cuda.h"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kSteps = 8;  // of a warp
constexpr std::int64_t kOfWarp = kSteps * kWarp, kOfBlock = kWarps * kOfWarp;

using WarpCounts = std::int32_t[kWarps][kMaxKinds];

__device__ std::int64_t slot_of(int step) {
  return blockIdx.x * kOfBlock + threadIdx.x / kWarp * kOfWarp + step * kWarp + threadIdx.x % kWarp;
}

// The lanes of this warp with the key of this one: how many, and how many before this one.
struct Peers {
  int all, before;
  __device__ bool is_last() const { return before == all - 1; }
};
__device__ Peers peers_of(int key) {
  const unsigned lanes = __match_any_sync(kAllLanes, key);
  return {__popc(lanes), __popc(lanes & ((1u << threadIdx.x % kWarp) - 1))};
}

// Returns the key of a slot, -1 after the last slot.
__device__ int key_at(const std::int64_t* keys, std::int64_t slots, std::int64_t kinds, std::int64_t slot) {
  if (slot >= slots) return -1;
  const std::int64_t key = keys[slot];
  if (key < 0 || key >= kinds) __trap();  // the CPU's assertion
  return static_cast<int>(key);
}

// Counts the keys of each warp's slots.
__device__ void count_by_warp(const std::int64_t* keys, std::int64_t slots, std::int64_t kinds,
                              WarpCounts& counts) {
  for (std::int64_t kind = threadIdx.x; kind < kinds; kind += kThreads)
    for (auto& of_warp : counts) of_warp[kind] = 0;
  __syncthreads();
  std::int32_t* const mine = counts[threadIdx.x / kWarp];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int key = key_at(keys, slots, kinds, slot_of(step));
    const Peers peers = peers_of(key);
    if (key >= 0 && peers.is_last()) mine[key] += peers.all;
    __syncwarp();
  }
  __syncthreads();
}

// Returns the sum over the lanes up to this one.
__device__ std::int32_t sum_up_to_lane(std::int32_t x) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const std::int32_t before = __shfl_sync(kAllLanes, x, lane < step ? lane : lane - step);
    if (lane >= step) x += before;
  }
  return x;
}

// Replaces counts by the sums of the counts before them, and returns the sum of all, to each lane
// of the warp.
__device__ std::int32_t scan(std::int32_t* counts, std::int64_t count) {
  std::int32_t total = 0;
  for (std::int64_t first = 0; first < count; first += kWarp) {
    const std::int64_t i = first + threadIdx.x % kWarp;
    const std::int32_t x = i < count ? counts[i] : 0, up_to_here = sum_up_to_lane(x);
    if (i < count) counts[i] = total + up_to_here - x;
    total += __shfl_sync(kAllLanes, up_to_here, kWarp - 1);
  }
  return total;
}

// of_blocks [kinds, blocks].
__global__ void __launch_bounds__(kThreads)
    count_kernel(const std::int64_t* __restrict__ keys, std::int64_t slots, std::int64_t kinds,
                 std::int32_t* __restrict__ of_blocks) {
  __shared__ WarpCounts counts;
  count_by_warp(keys, slots, kinds, counts);
  for (std::int64_t kind = threadIdx.x; kind < kinds; kind += kThreads) {
    std::int32_t sum = 0;
    for (const auto& of_warp : counts) sum += of_warp[kind];
    of_blocks[kind * gridDim.x + blockIdx.x] = sum;
  }
}

// A warp a kind.
__global__ void __launch_bounds__(kThreads)
    scan_kernel(std::int32_t* __restrict__ of_blocks, std::int64_t kinds, std::int64_t blocks,
                std::int32_t* __restrict__ counts) {
  const std::int64_t kind = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (kind >= kinds) return;
  const std::int32_t total = scan(of_blocks + kind * blocks, blocks);
  if (threadIdx.x % kWarp == 0) counts[kind] = total;
}

__global__ void __launch_bounds__(kThreads)
    place_kernel(const std::int64_t* __restrict__ keys, std::int64_t slots, std::int64_t kinds,
                 const std::int32_t* __restrict__ of_blocks, const std::int32_t* __restrict__ counts,
                 std::int64_t* __restrict__ order, std::int64_t* __restrict__ place) {
  __shared__ WarpCounts next;  // the place of a warp's next slot of each kind
  __shared__ std::int32_t begins[kMaxKinds];
  for (std::int64_t kind = threadIdx.x; kind < kinds; kind += kThreads) begins[kind] = counts[kind];
  count_by_warp(keys, slots, kinds, next);
  if (threadIdx.x < kWarp) scan(begins, kinds);
  __syncthreads();
  for (std::int64_t kind = threadIdx.x; kind < kinds; kind += kThreads) {
    std::int32_t begin = begins[kind] + of_blocks[kind * gridDim.x + blockIdx.x];
    for (auto& of_warp : next) {
      const std::int32_t count = of_warp[kind];
      of_warp[kind] = begin;
      begin += count;
    }
  }
  __syncthreads();
  std::int32_t* const mine = next[threadIdx.x / kWarp];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const std::int64_t slot = slot_of(step);
    const int key = key_at(keys, slots, kinds, slot);
    const Peers peers = peers_of(key);
    const std::int32_t first = key < 0 ? 0 : mine[key];
    __syncwarp();
    if (key >= 0) {
      if (peers.is_last()) mine[key] = first + peers.all;
      place[slot] = first + peers.before;
      order[first + peers.before] = slot;
    }
    __syncwarp();
  }
}

std::int64_t blocks_of(std::int64_t slots) { return (slots + kOfBlock - 1) / kOfBlock; }

}  // namespace

std::int64_t sort_slots_workspace(std::int64_t slots, std::int64_t kinds) { return kinds * blocks_of(slots); }

void sort_slots(const std::int64_t* keys, std::int64_t slots, std::int64_t kinds, std::int32_t* workspace,
                std::int64_t* order, std::int64_t* place, std::int32_t* counts, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(blocks_of(slots));
  if (blocks > 0) launch(count_kernel, blocks, kThreads, stream, keys, slots, kinds, workspace);
  launch(scan_kernel, blocks_for(kinds, kWarps), kThreads, stream, workspace, kinds, blocks, counts);
  if (blocks > 0)
    launch(place_kernel, blocks, kThreads, stream, keys, slots, kinds, workspace, counts, order, place);
}

}  // namespace rondo::cuda

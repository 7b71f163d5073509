// One warp per row, 16 bytes per lane if rows are aligned. Compiled without contraction, and every
// sum has the order of the CPU's, so that bits are equal. No result overlaps an operand, so several
// loads are in flight at once.
#include "ops/kernel/element.cuh"
#include "ops/kernel/filled_rows.h"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/permute_tokens/permute_tokens_cuda.h"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarpsOfBlock = kThreads / kWarp;

__device__ std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * kWarpsOfBlock + threadIdx.x / kWarp;
}

// Returns pack d of row i, with kAdded after the addition of that of `addend`.
template <bool kAdded, int kCount, class T>
__device__ Pack<T, kCount> pack_of(const T* rows, const T* addend, std::int64_t i, std::int64_t width,
                                   std::int64_t d) {
  auto elements = reinterpret_cast<const Pack<T, kCount>*>(rows + i * width)[d];
  if constexpr (kAdded) {
    const auto more = reinterpret_cast<const Pack<T, kCount>*>(addend + i * width)[d];
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      elements.at[k] = rounded<T>(widened(elements.at[k]) + widened(more.at[k]));
  }
  return elements;
}

template <class T, int kCount, bool kAdded>
__global__ void __launch_bounds__(kThreads)
    permute_kernel(const T* __restrict__ x, const T* __restrict__ addend,
                   const std::int64_t* __restrict__ order, const std::int32_t* __restrict__ count,
                   const SumOf<T>* __restrict__ scores, T* __restrict__ result, std::int64_t rows,
                   std::int64_t width, std::int64_t slots, std::int64_t copies) {
  using Elements = Pack<T, kCount>;
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  auto* const out = reinterpret_cast<Elements*>(result + row * width);
  const std::int64_t packs = width / kCount;
  const int lane = threadIdx.x % kWarp;
  if (row >= filled_rows(count, rows)) {
    Elements zeros;
#pragma unroll
    for (int i = 0; i < kCount; ++i) zeros.at[i] = rounded<T>(0);
    for (std::int64_t d = lane; d < packs; d += kWarp) out[d] = zeros;
    return;
  }
  const std::int64_t slot = order[row];
  if (slot < 0 || slot >= slots) __trap();  // the CPU's assertion
  const std::int64_t token = slot / copies;
  if (scores == nullptr) {
#pragma unroll 4
    for (std::int64_t d = lane; d < packs; d += kWarp)
      out[d] = pack_of<kAdded, kCount>(x, addend, token, width, d);
    return;
  }
  const SumOf<T> score = scores[slot];
#pragma unroll 4
  for (std::int64_t d = lane; d < packs; d += kWarp) {
    Elements elements = pack_of<kAdded, kCount>(x, addend, token, width, d);
#pragma unroll
    for (int i = 0; i < kCount; ++i) elements.at[i] = rounded<T>(score * widened(elements.at[i]));
    out[d] = elements;
  }
}

// Rounds a pack of sums to the dtype of `out` and stores it.
template <class Out, class Sum, int kCount>
__device__ void store_sums(Out* out, const Pack<Sum, kCount>& sums) {
  Pack<Out, kCount> pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) pack.at[i] = rounded<Out>(sums.at[i]);
  if constexpr (sizeof pack % 16 == 0)
    store_wide(out, pack);
  else
    *reinterpret_cast<Pack<Out, kCount>*>(out) = pack;
}

template <class T, class Out, int kCount, bool kAdded>
__global__ void __launch_bounds__(kThreads)
    unpermute_kernel(const T* __restrict__ rows, const T* __restrict__ addend,
                     const std::int64_t* __restrict__ place, const std::int32_t* __restrict__ count,
                     const SumOf<T>* __restrict__ scores, Out* __restrict__ result, std::int64_t tokens,
                     std::int64_t copies, std::int64_t room, std::int64_t width) {
  using Sum = SumOf<T>;
  const std::int64_t token = row_of_warp();
  if (token >= tokens) return;
  const std::int64_t filled = filled_rows(count, room), packs = width / kCount;
  for (std::int64_t d = threadIdx.x % kWarp; d < packs; d += kWarp) {
    Pack<Sum, kCount> sums;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums.at[i] = 0;
#pragma unroll 4
    for (std::int64_t slot = token * copies; slot < (token + 1) * copies; ++slot) {
      const std::int64_t row = place[slot];
      if (row < 0 || row >= filled) continue;
      const auto elements = pack_of<kAdded, kCount>(rows, addend, row, width, d);
      const Sum score = scores == nullptr ? Sum(1) : scores[slot];
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums.at[i] += score * widened(elements.at[i]);
    }
    store_sums(result + token * width + d * kCount, sums);
  }
}

// A thread takes a pack of elements of each piece.
template <class T, int kCount>
__global__ void __launch_bounds__(kThreads) sum_pieces_kernel(const T* __restrict__ x, T* __restrict__ result,
                                                              std::int64_t pieces, std::int64_t elements) {
  using Sum = SumOf<T>;
  const std::int64_t packs = elements / kCount,
                     pack = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pack >= packs) return;
  Pack<Sum, kCount> sums;
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums.at[i] = 0;
#pragma unroll 4
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const auto of_piece = reinterpret_cast<const Pack<T, kCount>*>(x + piece * elements)[pack];
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums.at[i] += widened(of_piece.at[i]);
  }
  store_sums(result + pack * kCount, sums);
}

// Half a warp per slot: lane i sums the elements i, i + 16, ... like the CPU's i-th sum, and the 16
// sums are added in order.
constexpr int kSums = 16;

template <class T>
__global__ void __launch_bounds__(kThreads)
    dot_kernel(const T* __restrict__ rows, const T* __restrict__ x, const std::int64_t* __restrict__ place,
               const std::int32_t* __restrict__ count, SumOf<T>* __restrict__ result, std::int64_t slots,
               std::int64_t copies, std::int64_t room, std::int64_t width) {
  using Sum = SumOf<T>;
  const std::int64_t slot = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kSums;
  const int lane = threadIdx.x % kSums;
  const std::int64_t row = slot < slots ? place[slot] : -1;
  const bool counts = row >= 0 && row < filled_rows(count, room);
  Sum mine = 0;
  if (counts) {
    const T *const a = rows + row * width, *const b = x + slot / copies * width;
#pragma unroll 8
    for (std::int64_t d = lane; d < width; d += kSums) mine += widened(a[d]) * widened(b[d]);
  }
  Sum total = 0;
#pragma unroll
  for (int i = 0; i < kSums; ++i) total += __shfl_sync(kAllLanes, mine, i, kSums);
  if (lane == 0 && slot < slots) result[slot] = counts ? total : Sum(0);
}

// Block b writes run b, by rank; the last block the rows after all runs. Each adds up the counts
// before its own, in both orders: there are as many runs as experts.
__global__ void __launch_bounds__(kThreads)
    order_kernel(const std::int32_t* __restrict__ counts, std::int64_t ranks, std::int64_t experts,
                 std::int64_t rows, std::int64_t* __restrict__ order, std::int64_t* __restrict__ place) {
  const std::int64_t runs = ranks * experts, run = blockIdx.x;
  const std::int64_t rank = run / experts, expert = run % experts;
  std::int64_t before_by_rank = 0, before_by_expert = 0;
  for (std::int64_t other = threadIdx.x % kWarp; other < runs; other += kWarp) {
    const std::int64_t of_rank = other / experts, of_expert = other % experts;
    if (other < run) before_by_rank += counts[other];
    if (run == runs || of_expert < expert || (of_expert == expert && of_rank < rank))
      before_by_expert += counts[other];
  }
  const std::int64_t row = warp_sum(before_by_rank), to = warp_sum(before_by_expert);
  const std::int64_t count = run == runs ? rows - row : counts[run];
  if (count < 0 || row + count > rows || to + count > rows) __trap();  // the CPU's assertion
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
    order[to + i] = row + i;
    place[row + i] = to + i;
  }
}

// Calls body(T(), count) with the widest accesses that all rows allow.
template <class Body>
void with_packs(Element element, bool wide, const Body& body) {
  with_dtype(element, [&](auto type) {
    using T = decltype(type);
    if (wide)
      body(type, std::integral_constant<int, kWide<T>>());
    else
      body(type, std::integral_constant<int, 1>());
  });
}

// Calls body(std::bool_constant<is_added>()). So kernels without an addend keep their registers
// and the loads that they have in flight.
template <class Body>
void with_addend(bool is_added, const Body& body) {
  is_added ? body(std::true_type()) : body(std::false_type());
}

std::int64_t bytes_of(Element element) {
  return element == Element::bf16 ? 2 : (element == Element::f32 ? 4 : 8);
}

}  // namespace

void permute_tokens(Element element, const void* x, const void* addend, const std::int64_t* order,
                    const std::int32_t* count, const void* scores, void* result, std::int64_t rows,
                    std::int64_t width, std::int64_t slots, std::int64_t copies, cudaStream_t stream) {
  const std::int64_t row_bytes = width * bytes_of(element);
  with_packs(element, aligned(x, row_bytes) && aligned(addend, row_bytes) && aligned(result, row_bytes),
             [&](auto type, auto count_of_pack) {
               using T = decltype(type);
               with_addend(addend != nullptr, [&](auto added) {
                 launch(permute_kernel<T, count_of_pack, added>, blocks_for(rows, kWarpsOfBlock), kThreads,
                        stream, static_cast<const T*>(x), static_cast<const T*>(addend), order, count,
                        static_cast<const SumOf<T>*>(scores), static_cast<T*>(result), rows, width, slots,
                        copies);
               });
             });
}

void unpermute_tokens(Element element, const void* rows, const void* addend, const std::int64_t* place,
                      const std::int32_t* count, const void* scores, bool narrow, void* result,
                      std::int64_t tokens, std::int64_t copies, std::int64_t room, std::int64_t width,
                      cudaStream_t stream) {
  const std::int64_t row_bytes = width * bytes_of(element);
  with_packs(element, aligned(rows, row_bytes) && aligned(addend, row_bytes) && aligned(result, row_bytes),
             [&](auto type, auto count_of_pack) {
               using T = decltype(type);
               using Sum = SumOf<T>;
               const auto sum_to = [&](auto* out) {
                 with_addend(addend != nullptr, [&](auto added) {
                   launch(unpermute_kernel<T, std::remove_pointer_t<decltype(out)>, count_of_pack, added>,
                          blocks_for(tokens, kWarpsOfBlock), kThreads, stream, static_cast<const T*>(rows),
                          static_cast<const T*>(addend), place, count, static_cast<const Sum*>(scores), out,
                          tokens, copies, room, width);
                 });
               };
               if (narrow)
                 sum_to(static_cast<T*>(result));
               else
                 sum_to(static_cast<Sum*>(result));
             });
}

void sum_pieces(Element element, const void* x, void* result, std::int64_t pieces, std::int64_t elements,
                cudaStream_t stream) {
  with_packs(element, aligned(x, elements * bytes_of(element)) && aligned(result),
             [&](auto type, auto count_of_pack) {
               using T = decltype(type);
               launch(sum_pieces_kernel<T, count_of_pack>, blocks_for(elements / count_of_pack, kThreads),
                      kThreads, stream, static_cast<const T*>(x), static_cast<T*>(result), pieces, elements);
             });
}

void dot_rows(Element element, const void* rows, const void* x, const std::int64_t* place,
              const std::int32_t* count, void* result, std::int64_t slots, std::int64_t copies,
              std::int64_t room, std::int64_t width, cudaStream_t stream) {
  with_dtype(element, [&](auto type) {
    using T = decltype(type);
    launch(dot_kernel<T>, blocks_for(slots, kThreads / kSums), kThreads, stream, static_cast<const T*>(rows),
           static_cast<const T*>(x), place, count, static_cast<SumOf<T>*>(result), slots, copies, room,
           width);
  });
}

void order_by_expert(const std::int32_t* counts, std::int64_t ranks, std::int64_t experts, std::int64_t rows,
                     std::int64_t* order, std::int64_t* place, cudaStream_t stream) {
  launch(order_kernel, blocks_for(ranks * experts + 1, 1), kThreads, stream, counts, ranks, experts, rows,
         order, place);
}

}  // namespace rondo::cuda

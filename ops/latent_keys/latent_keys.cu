// A thread copies sixteen consecutive elements of a head, or fewer at the end of a part. A row of
// the batch has blocks of its own, whose threads count its tokens, their heads and the pieces of a
// head. In the backward the first blocks of a row sum over the heads: a thread has eight elements
// of a token. They take longer, so they run beside the copies.
#include "ops/kernel/arithmetic.h"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/vectors.cuh"
#include "ops/latent_keys/latent_keys_cuda.h"
#include "ops/latent_keys/latent_keys_math.h"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 256;

// The pieces of a row of the batch. Of the pieces of a head, the first `left` are in its left part
// and the others in its right part.
struct Pieces {
  Divisor heads, pieces;
  std::uint32_t left, items;

  struct Place {
    std::uint32_t time, head, piece;
  };
  RONDO_DEVICE Place place(std::uint32_t item) const {
    const auto [head_of_row, piece] = pieces.divide(item);
    const auto [time, head] = heads.divide(head_of_row);
    return {time, head, piece};
  }
};
Pieces pieces_of(const LatentHeads& in, std::int64_t left, std::int64_t right) {
  const std::int64_t of_left = (left + kPiece - 1) / kPiece;
  const std::int64_t pieces = of_left + (right + kPiece - 1) / kPiece;
  return {Divisor(in.heads), Divisor(pieces), static_cast<std::uint32_t>(of_left),
          static_cast<std::uint32_t>(in.time * in.heads * pieces)};
}

template <class T>
__device__ const T* head_at(const StridedHeads& x, std::int64_t row, std::int64_t time, std::int64_t head) {
  return static_cast<const T*>(x.data) + row * x.batch + time * x.time + head * x.head;
}

// Copies the piece of an item from `left` or `right` to the contiguous heads at `to`.
template <class T, bool kAligned>
__device__ void copy_item(const LatentHeads& in, const Pieces& pieces, std::uint32_t row, std::uint32_t item,
                          const StridedHeads& left, std::int64_t left_width, const StridedHeads& right,
                          std::int64_t right_width, T* to) {
  if (item >= pieces.items) return;
  const auto [time, head, piece] = pieces.place(item);
  const bool is_left = piece < pieces.left;
  const T* const from = head_at<T>(is_left ? left : right, row, time, head);
  to += ((row * in.time + time) * in.heads + head) * (left_width + right_width);
  copy_piece<kAligned>(from, std::int64_t{kPiece} * (is_left ? piece : piece - pieces.left),
                       is_left ? left_width : right_width, is_left ? to : to + left_width);
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) forward_kernel(LatentHeads in, Divisor blocks, Pieces pieces,
                                                           StridedHeads kv, StridedHeads rotated, T* k) {
  const auto [row, block] = blocks.divide(blockIdx.x);
  copy_item<T, kAligned>(in, pieces, row, block * kThreads + threadIdx.x, kv, in.plain, rotated, in.rotated,
                         k);
}

// Sums elements [first, first + 8) of a token's `width` over the heads.
template <class T, bool kAligned>
__device__ void sum_heads(const T* head, std::int64_t stride, std::int64_t heads, std::int64_t first,
                          std::int64_t width, T* to) {
  float of_groups[kVector] = {}, of_group[kVector] = {};
#pragma unroll 4
  for (std::int64_t h = 0; h < heads; ++h) {
    float x[kVector];
    load_some<kAligned>(head + h * stride, first, width, x);
    const bool is_last = (h + 1) % latent_keys::kGroup == 0;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      of_group[i] += x[i];
      of_groups[i] += is_last ? of_group[i] : 0.0f;
      of_group[i] = is_last ? 0.0f : of_group[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) of_group[i] += of_groups[i];
  store_some<kAligned>(to, first, width, of_group);
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(LatentHeads in, Divisor blocks, std::uint32_t sum_blocks, Divisor vectors, Pieces pieces,
                    StridedHeads grad_k, StridedHeads grad_v, T* grad_kv, T* grad_rotated) {
  const auto [row, block] = blocks.divide(blockIdx.x);
  if (block >= sum_blocks)
    return copy_item<T, kAligned>(in, pieces, row, (block - sum_blocks) * kThreads + threadIdx.x, grad_k,
                                  in.plain, grad_v, in.value, grad_kv);
  const auto [time, vector] = vectors.divide(block * kThreads + threadIdx.x);
  if (time >= in.time) return;
  sum_heads<T, kAligned>(head_at<T>(grad_k, row, time, 0) + in.plain, grad_k.head, in.heads,
                         std::int64_t{kVector} * vector, in.rotated,
                         grad_rotated + (row * in.time + time) * in.rotated);
}

bool all_aligned(const LatentHeads& in, const StridedHeads& x) {
  return aligned(x.data) && (in.batch == 1 || x.batch % kVector == 0) && x.time % kVector == 0 &&
         x.head % kVector == 0;
}
bool all_aligned(const LatentHeads& in, const StridedHeads& x, const StridedHeads& y, const void* result) {
  return all_aligned(in, x) && all_aligned(in, y) && aligned(result) && in.plain % kVector == 0 &&
         in.rotated % kVector == 0 && in.value % kVector == 0;
}

}  // namespace

void latent_keys(const LatentHeads& in, const StridedHeads& kv, const StridedHeads& rotated, void* k,
                 cudaStream_t stream) {
  const StridedHeads shared{rotated.data, rotated.batch, rotated.time, 0};
  const Pieces pieces = pieces_of(in, in.plain, in.rotated);
  const unsigned blocks = blocks_for(pieces.items, kThreads);
  with_f32_or_bf16(in.element, [&](auto type) {
    with_alignment(all_aligned(in, kv, shared, k), [&](auto whole) {
      launch(&forward_kernel<decltype(type), whole()>, static_cast<unsigned>(in.batch) * blocks, kThreads,
             stream, in, Divisor(blocks), pieces, kv, shared, k);
    });
  });
}

void latent_keys_backward(const LatentHeads& in, const StridedHeads& grad_k, const StridedHeads& grad_v,
                          void* grad_kv, void* grad_rotated, cudaStream_t stream) {
  const Pieces pieces = pieces_of(in, in.plain, in.value);
  const std::int64_t vectors = (in.rotated + kVector - 1) / kVector;
  const unsigned sum_blocks = blocks_for(in.time * vectors, kThreads);
  const unsigned blocks = sum_blocks + blocks_for(pieces.items, kThreads);
  with_f32_or_bf16(in.element, [&](auto type) {
    with_alignment(all_aligned(in, grad_k, grad_v, grad_kv) && aligned(grad_rotated), [&](auto whole) {
      launch(&backward_kernel<decltype(type), whole()>, static_cast<unsigned>(in.batch) * blocks, kThreads,
             stream, in, Divisor(blocks), sum_blocks, Divisor(vectors), pieces, grad_k, grad_v, grad_kv,
             grad_rotated);
    });
  });
}

}  // namespace rondo::cuda

// A thread rotates eight consecutive pairs of a head, or copies sixteen elements before them, or
// fewer at the end. A row of the batch has blocks of its own, whose threads count its tokens, their
// heads and the pieces of a head. In place nothing is copied, and a block has whole heads: all
// their elements are read before one is written.
#include "ops/kernel/arithmetic.h"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/vectors.cuh"
#include "ops/rope/rope_cuda.h"
#include "ops/rope/rope_math.h"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 256;

// Loads pairs [first, first + 8) of a head of 2 * `half` elements.
template <bool kAligned, class T>
__device__ void load_pairs(const T* head, std::int64_t first, std::int64_t half, bool neighbours,
                           float (&a)[kVector], float (&b)[kVector]) {
  if (!neighbours) {
    load_some<kAligned>(head, first, half, a);
    load_some<kAligned>(head + half, first, half, b);
    return;
  }
  float low[kVector], high[kVector];
  load_some<kAligned>(head, 2 * first, 2 * half, low);
  load_some<kAligned>(head, 2 * first + kVector, 2 * half, high);
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) {
    a[i] = low[2 * i], b[i] = low[2 * i + 1];
    a[i + kVector / 2] = high[2 * i], b[i + kVector / 2] = high[2 * i + 1];
  }
}

template <bool kAligned, class T>
__device__ void store_pairs(T* head, std::int64_t first, std::int64_t half, bool neighbours,
                            const float (&a)[kVector], const float (&b)[kVector]) {
  if (!neighbours) {
    store_some<kAligned>(head, first, half, a);
    store_some<kAligned>(head + half, first, half, b);
    return;
  }
  float low[kVector], high[kVector];
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) {
    low[2 * i] = a[i], low[2 * i + 1] = b[i];
    high[2 * i] = a[i + kVector / 2], high[2 * i + 1] = b[i + kVector / 2];
  }
  store_some<kAligned>(head, 2 * first, 2 * half, low);
  store_some<kAligned>(head, 2 * first + kVector, 2 * half, high);
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    rope_kernel(RopeHeads in, Divisor blocks, Divisor heads, Divisor pieces, std::uint32_t copied,
                std::uint32_t items, const T* x, const float* cos, const float* sin, bool neighbours_in,
                bool neighbours_out, float sign, T* y) {
  const auto [b, block] = blocks.divide(blockIdx.x);
  const std::uint32_t item = block * blockDim.x + threadIdx.x;
  if (item >= items) return;
  const auto [head_of_row, piece] = pieces.divide(item);
  const auto [t, head] = heads.divide(head_of_row);
  const std::int64_t half = in.rotated / 2, plain = in.width - in.rotated;
  const std::int64_t token = b * in.time + t;
  x += b * in.batch_stride + t * in.time_stride + head * in.head_stride;
  y += (token * in.heads + head) * in.width;
  if (piece < copied) return copy_piece<kAligned>(x, std::int64_t{kPiece} * piece, plain, y);

  const std::int64_t first = static_cast<std::int64_t>(piece - copied) * kVector;
  const std::int64_t angles = (in.one_table ? t : token) * half;
  float one[kVector], two[kVector], c[kVector], s[kVector];
  load_pairs<kAligned>(x + plain, first, half, neighbours_in, one, two);
  load_some<kAligned>(cos + angles, first, half, c);
  load_some<kAligned>(sin + angles, first, half, s);
  if (x == y) __syncthreads();
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const rope::Pair<float> rotated = rope::apply_rotary(one[i], two[i], c[i], sign * s[i]);
    one[i] = rotated.first;
    two[i] = rotated.second;
  }
  store_pairs<kAligned>(y + plain, first, half, neighbours_out, one, two);
}

bool all_aligned(const RopeHeads& in, const void* x, const float* cos, const float* sin, const void* y) {
  return in.rotated / 2 % kVector == 0 && in.width % kVector == 0 && in.batch_stride % kVector == 0 &&
         in.time_stride % kVector == 0 && in.head_stride % kVector == 0 && aligned(x) && aligned(cos) &&
         aligned(sin) && aligned(y);
}

}  // namespace

void rope(const RopeHeads& in, const void* x, const float* cos, const float* sin, bool interleaved,
          bool inverse, void* y, cudaStream_t stream) {
  const bool in_place = x == y;
  const std::int64_t copied = in_place ? 0 : (in.width - in.rotated + kPiece - 1) / kPiece;
  const std::int64_t pieces = copied + (in.rotated / 2 + kVector - 1) / kVector;
  if (pieces == 0) return;
  const std::int64_t items = in.time * in.heads * pieces;
  const auto threads = static_cast<unsigned>(in_place ? kThreads / pieces * pieces : kThreads);
  const unsigned blocks = blocks_for(items, threads);
  with_f32_or_bf16(in.element, [&](auto type) {
    with_alignment(all_aligned(in, x, cos, sin, y), [&](auto whole) {
      launch(&rope_kernel<decltype(type), whole()>, static_cast<unsigned>(in.batch) * blocks, threads, stream,
             in, Divisor(blocks), Divisor(in.heads), Divisor(pieces), copied, items, x, cos, sin,
             interleaved && !inverse, interleaved && inverse, inverse ? -1.0f : 1.0f, y);
    });
  });
}

}  // namespace rondo::cuda

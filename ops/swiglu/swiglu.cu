// A thread takes eight consecutive elements, a block a piece of a row. Contiguous rows are treated
// as one. Threads of empty rows read nothing and store zeros.
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/vectors.cuh"
#include "ops/swiglu/swiglu_cuda.h"
#include "ops/swiglu/swiglu_math.h"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 256, kOfBlock = kThreads * kVector;

struct PieceOfRow {
  std::int64_t row, first;
};
__device__ PieceOfRow piece_of_thread(unsigned blocks_of_row) {
  return {blockIdx.x / blocks_of_row,
          (static_cast<std::int64_t>(blockIdx.x % blocks_of_row) * kThreads + threadIdx.x) * kVector};
}

// The number of rows that are not empty, and their width. The kernel may treat several as one row.
struct Filled {
  const std::int32_t* rows;
  std::int64_t width;
};
// Returns whether the eight elements at `element` are in an empty row. REQUIRES: they are in one
// row.
template <bool kCounted>
__device__ bool is_empty(const Filled& filled, std::int64_t element) {
  if constexpr (kCounted) return element >= *filled.rows * filled.width;
  return false;
}

template <class T, bool kAligned, bool kCounted>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const T* gate, std::int64_t gate_stride, const T* up, std::int64_t up_stride,
                   Filled filled, T* y, std::int64_t width, unsigned blocks_of_row) {
  const auto [row, first] = piece_of_thread(blocks_of_row);
  if (first >= width) return;
  float g[kVector] = {}, u[kVector];
  if (is_empty<kCounted>(filled, row * width + first)) {
    store_some<kAligned>(y + row * width, first, width, g);
    return;
  }
  load_some<kAligned>(gate + row * gate_stride, first, width, g);
  load_some<kAligned>(up + row * up_stride, first, width, u);
#pragma unroll
  for (int i = 0; i < kVector; ++i) g[i] = swiglu::forward(g[i], u[i]);
  store_some<kAligned>(y + row * width, first, width, g);
}

template <class T, bool kAligned, bool kCounted>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const T* grad, const T* gate, std::int64_t gate_stride, const T* up,
                    std::int64_t up_stride, Filled filled, T* grad_gate, T* grad_up, std::int64_t stride,
                    std::int64_t width, unsigned blocks_of_row) {
  const auto [row, first] = piece_of_thread(blocks_of_row);
  if (first >= width) return;
  float d[kVector], g[kVector] = {}, u[kVector];
  if (is_empty<kCounted>(filled, row * width + first)) {
    store_some<kAligned>(grad_gate + row * stride, first, width, g);
    store_some<kAligned>(grad_up + row * stride, first, width, g);
    return;
  }
  load_some<kAligned>(grad + row * width, first, width, d);
  load_some<kAligned>(gate + row * gate_stride, first, width, g);
  load_some<kAligned>(up + row * up_stride, first, width, u);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const swiglu::Gradients<float> made = swiglu::backward(d[i], g[i], u[i]);
    g[i] = made.gate;
    u[i] = made.up;
  }
  store_some<kAligned>(grad_gate + row * stride, first, width, g);
  store_some<kAligned>(grad_up + row * stride, first, width, u);
}

// Returns the operands as one row if there are no gaps. Rows of results are `stride` apart.
SwigluRows as_few_rows(const SwigluRows& in, std::int64_t stride) {
  if (in.gate_stride != in.width || in.up_stride != in.width || stride != in.width) return in;
  if (in.count != nullptr && in.width % kVector != 0) return in;  // a thread would have two rows
  SwigluRows one = in;
  one.rows = 1;
  one.width = in.rows * in.width;
  return one;
}

// Calls body(has_count, filled) for the operands of a caller.
template <class Body>
void with_count(const SwigluRows& of, const Body& body) {
  const Filled filled{of.count, of.width};
  of.count != nullptr ? body(std::true_type(), filled) : body(std::false_type(), filled);
}

bool aligned_rows(const SwigluRows& in, std::int64_t stride) {
  const bool one = in.rows == 1;
  return aligned(in.gate) && aligned(in.up) && in.width % kVector == 0 &&
         (one || (in.gate_stride % kVector == 0 && in.up_stride % kVector == 0 && stride % kVector == 0));
}

}  // namespace

void swiglu(const SwigluRows& of, void* y, cudaStream_t stream) {
  const SwigluRows in = as_few_rows(of, of.width);
  const bool all_aligned = aligned_rows(in, in.width) && aligned(y);
  const unsigned blocks = blocks_for(in.width, kOfBlock);
  with_f32_or_bf16(in.element, [&](auto type) {
    with_alignment(all_aligned, [&](auto whole) {
      with_count(of, [&](auto counted, const Filled& filled) {
        launch(&forward_kernel<decltype(type), whole(), counted()>, static_cast<unsigned>(in.rows) * blocks,
               kThreads, stream, in.gate, in.gate_stride, in.up, in.up_stride, filled, y, in.width, blocks);
      });
    });
  });
}

void swiglu_backward(const SwigluRows& of, const void* grad, void* grad_gate, void* grad_up,
                     std::int64_t stride, cudaStream_t stream) {
  const SwigluRows in = as_few_rows(of, stride);
  const bool all_aligned =
      aligned_rows(in, stride) && aligned(grad) && aligned(grad_gate) && aligned(grad_up);
  const unsigned blocks = blocks_for(in.width, kOfBlock);
  with_f32_or_bf16(in.element, [&](auto type) {
    with_alignment(all_aligned, [&](auto whole) {
      with_count(of, [&](auto counted, const Filled& filled) {
        launch(&backward_kernel<decltype(type), whole(), counted()>, static_cast<unsigned>(in.rows) * blocks,
               kThreads, stream, grad, in.gate, in.gate_stride, in.up, in.up_stride, filled, grad_gate,
               grad_up, stride, in.width, blocks);
      });
    });
  });
}

}  // namespace rondo::cuda

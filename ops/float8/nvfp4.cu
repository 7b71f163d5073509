// Compiled without contraction, for the bits of the CPU. A thread has a piece of 16 numbers.
#include "ops/float8/nvfp4_cuda.h"
#include "ops/float8/nvfp4_math.h"
#include "ops/kernel/kernel_launch.cuh"

namespace rondo::cuda {
namespace {

using nvfp4::kPiece;

constexpr int kThreads = 128;

__device__ std::int64_t pieces_of(const Nvfp4Job& job) { return job.rows * (job.columns / kPiece); }

// Quantizes piece i of the matrix, counted row by row.
__device__ void quantize_piece(const Nvfp4Job& job, std::int64_t i) {
  const std::int64_t of_row = job.columns / kPiece, row = i / of_row, column = i % of_row * kPiece;
  const std::int64_t first = row * job.columns + column;
  const std::int64_t begin = job.squares ? row / kPiece * kPiece : row,
                     end = begin + (job.squares ? kPiece : 1);
  float most = 0;
  for (std::int64_t r = begin; r < end; ++r)
    for (std::int64_t k = 0; k < kPiece; ++k) {
      const float magnitude = std::fabs(job.x[r * job.columns + column + k]);
      most = magnitude > most ? magnitude : most;
    }
  const float largest = *job.largest;
  if (!(largest <= nvfp4::kLargestFloat)) {
    job.scales[i] = float8::float_of(0x7fc00000);
    for (std::int64_t k = 0; k < kPiece; ++k) job.values[first + k] = 0;
    return;
  }
  const float scale = nvfp4::scale_of(most, nvfp4::encode_of(largest)), factor = nvfp4::factor_of(scale);
  job.scales[i] = scale;
  RoundingDraws draws;
  draws.stream = job.stream;
  const std::uint64_t bits = job.bits == nullptr ? 0 : static_cast<std::uint64_t>(*job.bits);
  for (std::int64_t group = 0; group < kPiece; group += kDrawGroup) {
    PhiloxWords words = {};
    if (job.bits != nullptr)
      words = draws.words((first + group) / kDrawGroup, static_cast<std::uint32_t>(bits),
                          static_cast<std::uint32_t>(bits >> 32));
    for (int k = 0; k < kDrawGroup; ++k) {
      const float x = job.x[first + group + k] * factor;
      job.values[first + group + k] =
          job.bits == nullptr ? nvfp4::number_of(x) : nvfp4::number_of(x, draw_of(words, k));
    }
  }
}

__global__ void __launch_bounds__(kThreads) piece_kernel(Nvfp4Job job) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < pieces_of(job)) quantize_piece(job, i);
}

}  // namespace

void quantize_nvfp4(const Nvfp4Job& job, cudaStream_t stream) {
  launch(piece_kernel, blocks_for(job.rows * (job.columns / kPiece), kThreads), kThreads, stream, job);
}

}  // namespace rondo::cuda

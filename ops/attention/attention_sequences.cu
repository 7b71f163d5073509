// A block counts the sequences before each of its threads' documents, then writes their borders. So
// the order is that of the documents, without atomics.
#include "ops/attention/attention_cuda.h"
#include "ops/kernel/kernel_launch.cuh"

namespace rondo::cuda {
namespace {

constexpr int kMerging = 1024;

// Returns the sum over the threads of the block up to this one; `counts` holds it for each thread.
__device__ std::int32_t sum_up_to(std::int32_t* counts, std::int32_t mine) {
  counts[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned step = 1; step < kMerging; step *= 2) {
    const std::int32_t before = threadIdx.x >= step ? counts[threadIdx.x - step] : 0;
    __syncthreads();
    counts[threadIdx.x] += before;
    __syncthreads();
  }
  return counts[threadIdx.x];
}

// Executed by one block. Writes border_at(i) for each i below `count` with begins(i), at most
// `room` of them, and fills the rest up to borders[room] with `all`. Each thread counts the
// beginnings in its piece first, then writes them.
template <class Begins, class BorderAt>
__device__ void write_borders(std::int64_t count, const Begins& begins, const BorderAt& border_at,
                              std::int32_t* borders, std::int64_t room, std::int64_t all) {
  __shared__ std::int32_t counts[kMerging];
  const std::int64_t piece = (count + kMerging - 1) / kMerging;
  const std::int64_t first = min(count, threadIdx.x * piece), last = min(count, first + piece);
  std::int32_t mine = 0;
  for (std::int64_t i = first; i < last; ++i) mine += begins(i);
  std::int64_t at = sum_up_to(counts, mine) - mine;
  for (std::int64_t i = first; i < last; ++i)
    if (begins(i) && at < room) borders[at++] = border_at(i);
  for (std::int64_t i = counts[kMerging - 1] + static_cast<std::int64_t>(threadIdx.x); i <= room;
       i += kMerging)
    borders[i] = static_cast<std::int32_t>(all);
}

__global__ void __launch_bounds__(kMerging)
    merge_kernel(const std::int32_t* borders, std::int64_t documents, std::int64_t all, std::int64_t tokens,
                 std::int64_t shorter_than, std::int32_t* sequences, std::int64_t room) {
  write_borders(
      documents, [&](std::int64_t i) { return sequence_begins(borders, i, tokens, shorter_than); },
      [&](std::int64_t i) { return borders[i]; }, sequences, room, all);
}

__global__ void __launch_bounds__(kMerging)
    cut_kernel(const std::int32_t* spans, std::int64_t all, std::int64_t chunk, std::int32_t* pieces) {
  write_borders(
      all, [&](std::int64_t token) { return (token - spans[2 * token]) % chunk == 0; },
      [](std::int64_t token) { return static_cast<std::int32_t>(token); }, pieces, all, all);
}

// Writes a border for each given one, and in each row one more where the run ends. After it no
// sequence has queries.
__global__ void run_kernel(const std::int32_t* borders, std::int64_t count, std::int64_t rows,
                           std::int64_t keys, RunOfQueries run, std::int32_t* of_queries,
                           std::int32_t* of_keys) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const auto border = [&](std::int64_t at) { return borders == nullptr ? at * keys : borders[at]; };
  const auto put = [&](std::int64_t at, std::int64_t queries, std::int64_t key) {
    of_queries[at] = static_cast<std::int32_t>(queries);
    of_keys[at] = static_cast<std::int32_t>(key);
  };
  const std::int64_t here = border(i), row = here / keys;
  if (row >= rows) return put(i + rows, rows * run.length, rows * keys);
  const std::int64_t begin = row * keys + run.positions[row * run.queries + run.first];
  const std::int64_t end = begin + run.length;
  const std::int64_t before = max(std::int64_t{0}, min(here - begin, run.length));
  put(i + row + (here >= end), row * run.length + before, here);
  if (here < end && border(i + 1) >= min(end, (row + 1) * keys))
    put(i + 1 + row, (row + 1) * run.length, end);
}

// A thread writes one of the begins.
__global__ void ragged_kernel(const std::int32_t* borders, int sequences, TokenStrides strides,
                              std::int32_t* lengths, std::int64_t* begins) {
  const int thread = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int stride = thread / (sequences + 1), i = thread % (sequences + 1);
  if (stride >= strides.count) return;
  begins[thread] = borders[i] * strides.elements[stride];
  if (stride == 0 && i < sequences) lengths[i] = borders[i + 1] - borders[i];
}

}  // namespace

void ragged_sequences(const std::int32_t* borders, std::int64_t sequences, const TokenStrides& strides,
                      std::int32_t* lengths, std::int64_t* begins, cudaStream_t stream) {
  launch(ragged_kernel, blocks_for((sequences + 1) * strides.count, 256), 256, stream, borders,
         static_cast<int>(sequences), strides, lengths, begins);
}

void merge_short_documents(const std::int32_t* borders, std::int64_t count, std::int64_t rows,
                           std::int64_t tokens, std::int64_t shorter_than, std::int32_t* sequences,
                           std::int64_t room, cudaStream_t stream) {
  launch(merge_kernel, 1, kMerging, stream, borders, count - 1, rows * tokens, tokens, shorter_than,
         sequences, room);
}

void cut_documents(const std::int32_t* spans, std::int64_t all, std::int64_t chunk, std::int32_t* pieces,
                   cudaStream_t stream) {
  launch(cut_kernel, 1, kMerging, stream, spans, all, chunk, pieces);
}

void sequences_of_run(const std::int32_t* borders, std::int64_t count, std::int64_t rows, std::int64_t keys,
                      const RunOfQueries& run, std::int32_t* of_queries, std::int32_t* of_keys,
                      cudaStream_t stream) {
  launch(run_kernel, blocks_for(count, 256), 256, stream, borders, count, rows, keys, run, of_queries,
         of_keys);
}

}  // namespace rondo::cuda

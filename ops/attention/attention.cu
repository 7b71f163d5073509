// A warp computes a row of a result: a lane holds every 32nd element of a head, scores are sums over the
// warp.
#include "ops/attention/attention_cuda.h"
#include "ops/kernel/element.cuh"
#include "ops/kernel/kernel_launch.cuh"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarpsOfBlock = kThreads / kWarp;
constexpr int kAtOnce = 4;  // scores under way side by side, so that sums over the warp overlap

__global__ void spans_kernel(const std::int32_t* borders, std::int64_t count, std::int64_t all,
                             std::int64_t tokens, std::int32_t* spans) {
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (token >= all) return;
  const std::int64_t row = token / tokens * tokens;
  std::int64_t begin = row, end = row + tokens;
  if (borders != nullptr) {
    std::int64_t low = 0, high = count;  // the first border behind the token
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (borders[middle] > token)
        high = middle;
      else
        low = middle + 1;
    }
    if (low > 0) begin = max(begin, static_cast<std::int64_t>(borders[low - 1]));
    if (low < count) end = min(end, static_cast<std::int64_t>(borders[low]));
  }
  spans[2 * token] = static_cast<std::int32_t>(begin);
  spans[2 * token + 1] = static_cast<std::int32_t>(end);
}

constexpr int kMerging = 1024;

// The sum over the threads of one block up to this one, which `counts` then holds for each of them.
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

// By one block: border_at(i) for each i below `count` at which something begins, one behind the other, at
// most `room` of them, and `all` in what is left up to borders[room]. Each thread looks at a piece of the
// i: first it counts what begins there, then it writes it.
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

// A lane's elements of a head.
template <class Sum, int kPer>
struct Lane {
  Sum at[kPer];
};

// The place of a head of a token.
template <class T>
__device__ T* place(const Heads& x, const DirectShape& shape, std::int64_t token, std::int64_t head) {
  return static_cast<T*>(x.data) + token / shape.tokens * x.row + head * x.head +
         token % shape.tokens * x.token;
}

template <class T, int kPer>
__device__ Lane<SumOf<T>, kPer> load(const T* from, std::int64_t width) {
  Lane<SumOf<T>, kPer> lane;
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
    const int d = threadIdx.x % kWarp + i * kWarp;
    lane.at[i] = d < width ? widened(from[d]) : SumOf<T>(0);
  }
  return lane;
}
template <class T, int kPer>
__device__ void store(T* to, const Lane<SumOf<T>, kPer>& lane, std::int64_t width, SumOf<T> factor) {
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
    const int d = threadIdx.x % kWarp + i * kWarp;
    if (d < width) to[d] = rounded<T>(lane.at[i] * factor);
  }
}
// This lane's part of a product.
template <class Sum, int kPer>
__device__ Sum part(const Lane<Sum, kPer>& a, const Lane<Sum, kPer>& b) {
  Sum sum = 0;
#pragma unroll
  for (int i = 0; i < kPer; ++i) sum += a.at[i] * b.at[i];
  return sum;
}
template <class Sum, int kPer>
__device__ void add(Lane<Sum, kPer>& to, Sum factor, const Lane<Sum, kPer>& x) {
#pragma unroll
  for (int i = 0; i < kPer; ++i) to.at[i] += factor * x.at[i];
}

// The token and head (or group) of this warp, and what the token sees of its document, or is seen by;
// `valid` is the same in all of its lanes.
struct Row {
  std::int64_t token, head;
  Span sees;
  bool valid;
};
__device__ Row row_of_warp(const DirectShape& shape, const AttentionMask& mask, const std::int32_t* spans,
                           std::int64_t heads) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarpsOfBlock + threadIdx.x / kWarp;
  Row row{i / heads, i % heads, {0, 0}, false};
  if (row.token >= shape.rows * shape.tokens) return row;
  const Span document{spans[2 * row.token], spans[2 * row.token + 1]};
  row.sees = visible_keys(mask, row.token, document);
  row.valid = shape.shorter_than == 0 || document.end - document.first < shape.shorter_than;
  return row;
}

template <class T, int kPer>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(DirectShape shape, const std::int32_t* spans, Heads q, Heads k, Heads v, Heads output,
                   SumOf<T>* logsumexp) {
  using Sum = SumOf<T>;
  const Row row = row_of_warp(shape, shape.mask, spans, shape.heads);
  if (!row.valid) return;
  const std::int64_t group = row.head / (shape.heads / shape.groups);
  const auto query = load<T, kPer>(place<T>(q, shape, row.token, row.head), shape.width);
  const Sum scale = static_cast<Sum>(shape.scale);
  Lane<Sum, kPer> result = {};
  Sum most = -INFINITY, total = 0;
  for (std::int64_t first = row.sees.first; first < row.sees.end; first += kAtOnce) {
    Sum scores[kAtOnce], now = most;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t key = min(first + i, row.sees.end - 1);
      scores[i] = warp_sum(part(query, load<T, kPer>(place<T>(k, shape, key, group), shape.width))) * scale;
      now = max(now, scores[i]);
    }
    const Sum shrink = exp(most - now);
    total *= shrink;
#pragma unroll
    for (int i = 0; i < kPer; ++i) result.at[i] *= shrink;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t key = first + i;
      if (key >= row.sees.end) break;
      const Sum weight = exp(scores[i] - now);
      total += weight;
      add(result, weight, load<T, kPer>(place<T>(v, shape, key, group), shape.value_width));
    }
    most = now;
  }
  store<T, kPer>(place<T>(output, shape, row.token, row.head), result, shape.value_width, Sum(1) / total);
  if (threadIdx.x % kWarp == 0) logsumexp[row.token * shape.heads + row.head] = most + log(total);
}

// Gradients of queries, and the products of outputs with their gradients, which the other kernel reads.
template <class T, int kPer>
__global__ void __launch_bounds__(kThreads)
    queries_kernel(DirectShape shape, const std::int32_t* spans, Heads grad, Heads q, Heads k, Heads v,
                   Heads output, const SumOf<T>* logsumexp, Heads grad_q, SumOf<T>* products) {
  using Sum = SumOf<T>;
  const Row row = row_of_warp(shape, shape.mask, spans, shape.heads);
  if (!row.valid) return;
  const std::int64_t group = row.head / (shape.heads / shape.groups),
                     slot = row.token * shape.heads + row.head;
  const auto query = load<T, kPer>(place<T>(q, shape, row.token, row.head), shape.width);
  const auto above = load<T, kPer>(place<T>(grad, shape, row.token, row.head), shape.value_width);
  const Sum product =
      warp_sum(part(above, load<T, kPer>(place<T>(output, shape, row.token, row.head), shape.value_width)));
  if (threadIdx.x % kWarp == 0) products[slot] = product;
  const Sum scale = static_cast<Sum>(shape.scale), total = logsumexp[slot];
  Lane<Sum, kPer> result = {};
#pragma unroll 2
  for (std::int64_t key = row.sees.first; key < row.sees.end; ++key) {
    const auto keys = load<T, kPer>(place<T>(k, shape, key, group), shape.width);
    const auto values = load<T, kPer>(place<T>(v, shape, key, group), shape.value_width);
    const Sum weight = exp(warp_sum(part(query, keys)) * scale - total);
    add(result, weight * (warp_sum(part(above, values)) - product), keys);
  }
  store<T, kPer>(place<T>(grad_q, shape, row.token, row.head), result, shape.width, scale);
}

// Gradients of keys and values: over the heads of the group, and in each over the queries that see the key.
template <class T, int kPer>
__global__ void __launch_bounds__(kThreads)
    keys_kernel(DirectShape shape, const std::int32_t* spans, Heads grad, Heads q, Heads k, Heads v,
                const SumOf<T>* logsumexp, const SumOf<T>* products, Heads grad_k, Heads grad_v) {
  using Sum = SumOf<T>;
  const Row row = row_of_warp(shape, seen_from_keys(shape.mask), spans, shape.groups);
  if (!row.valid) return;
  const std::int64_t heads_of_group = shape.heads / shape.groups;
  const auto key = load<T, kPer>(place<T>(k, shape, row.token, row.head), shape.width);
  const auto value = load<T, kPer>(place<T>(v, shape, row.token, row.head), shape.value_width);
  const Sum scale = static_cast<Sum>(shape.scale);
  Lane<Sum, kPer> key_result = {}, value_result = {};
  for (std::int64_t head = row.head * heads_of_group; head < (row.head + 1) * heads_of_group; ++head) {
#pragma unroll 2
    for (std::int64_t token = row.sees.first; token < row.sees.end; ++token) {
      const std::int64_t slot = token * shape.heads + head;
      const auto query = load<T, kPer>(place<T>(q, shape, token, head), shape.width);
      const auto above = load<T, kPer>(place<T>(grad, shape, token, head), shape.value_width);
      const Sum weight = exp(warp_sum(part(query, key)) * scale - logsumexp[slot]);
      add(value_result, weight, above);
      add(key_result, weight * (warp_sum(part(above, value)) - products[slot]), query);
    }
  }
  store<T, kPer>(place<T>(grad_k, shape, row.token, row.head), key_result, shape.width, scale);
  store<T, kPer>(place<T>(grad_v, shape, row.token, row.head), value_result, shape.value_width, Sum(1));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    sinks_kernel(std::int64_t slots, std::int64_t heads, std::int64_t width, const T* sinks, T* output,
                 SumOf<T>* logsumexp) {
  using Sum = SumOf<T>;
  const std::int64_t slot = static_cast<std::int64_t>(blockIdx.x) * kWarpsOfBlock + threadIdx.x / kWarp;
  if (slot >= slots) return;
  // Read by all lanes before the first of them writes.
  const Sum without = __shfl_sync(0xffffffffu, logsumexp[slot], 0);
  const Sum sink = widened(sinks[slot % heads]), most = max(sink, without);
  const Sum with = most + log(exp(sink - most) + exp(without - most)), share = exp(without - with);
  for (std::int64_t d = threadIdx.x % kWarp; d < width; d += kWarp) {
    T& element = output[slot * width + d];
    element = rounded<T>(widened(element) * share);
  }
  if (threadIdx.x % kWarp == 0) logsumexp[slot] = with;
}

// Calls body(T(), elements of a head that a lane holds).
template <class Body>
void with_lanes(const DirectShape& shape, const Body& body) {
  const std::int64_t width = shape.width > shape.value_width ? shape.width : shape.value_width;
  with_dtype(shape.element, [&](auto type) {
    if (width <= 4 * kWarp)
      body(type, std::integral_constant<int, 4>());
    else if (width <= 8 * kWarp)
      body(type, std::integral_constant<int, 8>());
    else
      body(type, std::integral_constant<int, 16>());
  });
}

}  // namespace

void document_spans(const std::int32_t* borders, std::int64_t count, std::int64_t rows, std::int64_t tokens,
                    std::int32_t* spans, cudaStream_t stream) {
  const std::int64_t all = rows * tokens;
  launch(spans_kernel, blocks_for(all, 256), 256, stream, borders, count, all, tokens, spans);
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

void add_sinks(Element element, std::int64_t slots, std::int64_t heads, std::int64_t value_width,
               const void* sinks, void* output, void* logsumexp, cudaStream_t stream) {
  with_dtype(element, [&](auto type) {
    using T = decltype(type);
    launch(sinks_kernel<T>, blocks_for(slots, kWarpsOfBlock), kThreads, stream, slots, heads, value_width,
           static_cast<const T*>(sinks), static_cast<T*>(output), static_cast<SumOf<T>*>(logsumexp));
  });
}

void direct_forward(const DirectShape& shape, const std::int32_t* spans, const Heads& q, const Heads& k,
                    const Heads& v, const Heads& output, void* logsumexp, cudaStream_t stream) {
  with_lanes(shape, [&](auto type, auto per) {
    using T = decltype(type);
    launch(forward_kernel<T, per>, blocks_for(shape.rows * shape.tokens * shape.heads, kWarpsOfBlock),
           kThreads, stream, shape, spans, q, k, v, output, static_cast<SumOf<T>*>(logsumexp));
  });
}

void direct_backward(const DirectShape& shape, const std::int32_t* spans, const Heads& grad, const Heads& q,
                     const Heads& k, const Heads& v, const Heads& output, const void* logsumexp,
                     const Heads& grad_q, const Heads& grad_k, const Heads& grad_v, void* products,
                     cudaStream_t stream) {
  with_lanes(shape, [&](auto type, auto per) {
    using T = decltype(type);
    auto* const sums = static_cast<SumOf<T>*>(products);
    const auto* const totals = static_cast<const SumOf<T>*>(logsumexp);
    const std::int64_t tokens = shape.rows * shape.tokens;
    launch(queries_kernel<T, per>, blocks_for(tokens * shape.heads, kWarpsOfBlock), kThreads, stream, shape,
           spans, grad, q, k, v, output, totals, grad_q, sums);
    launch(keys_kernel<T, per>, blocks_for(tokens * shape.groups, kWarpsOfBlock), kThreads, stream, shape,
           spans, grad, q, k, v, totals, sums, grad_k, grad_v);
  });
}

}  // namespace rondo::cuda

// A warp computes a row of a result. A lane holds every 32nd element of a head; scores are sums
// over the warp.
#include "ops/attention/attention_cuda.h"
#include "ops/kernel/element.cuh"
#include "ops/kernel/kernel_launch.cuh"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarpsOfBlock = kThreads / kWarp;
constexpr int kAtOnce = 4;  // concurrent scores, so that their sums over the warp overlap

__global__ void spans_kernel(const std::int32_t* borders, std::int64_t count, std::int64_t all,
                             std::int64_t tokens, std::int32_t* spans) {
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (token >= all) return;
  const std::int64_t row = token / tokens * tokens;
  std::int64_t begin = row, end = row + tokens;
  if (borders != nullptr) {
    std::int64_t low = 0, high = count;  // the first border after the token
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

__global__ void places_kernel(const std::int32_t* of_token, std::int64_t all, std::int64_t tokens,
                              std::int64_t positions, std::int32_t* at) {
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (token < all)
    at[token / tokens * positions + of_token[token]] = static_cast<std::int32_t>(token % tokens);
}
__global__ void nobody_kernel(std::int64_t all, std::int32_t* at) {
  const std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (position < all) at[position] = -1;
}

// A lane's elements of a head.
template <class Sum, int kPer>
struct Lane {
  Sum at[kPer];
};

// A head of a row of the batch; its tokens are `token` elements apart.
template <class T>
__device__ T* head_of(const Heads& x, std::int64_t row, std::int64_t head) {
  return static_cast<T*>(x.data) + row * x.row + head * x.head;
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
// This lane's part of a dot product.
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

// Row, token and head (or group) of this warp, and the positions of the row that the token sees in
// its document, or is seen from. `valid` is the same in all lanes of the warp.
struct Row {
  std::int64_t row, token, head, slot;  // slot: index in [B, heads, T]
  std::int32_t first, end;
  bool valid;
};
// `positions` of the row's `tokens` tokens; null: their indices.
__device__ Row row_of_warp(const DirectShape& shape, const AttentionMask& mask, const std::int32_t* spans,
                           std::int64_t heads, std::int64_t tokens, const std::int32_t* positions) {
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kWarpsOfBlock + threadIdx.x / kWarp;
  const std::int64_t number = warp / heads, of_row = number / tokens, head = warp % heads;
  const std::int64_t token = number - of_row * tokens;
  Row row{of_row, token, head, (of_row * heads + head) * tokens + token, 0, 0, false};
  if (of_row >= shape.rows) return row;
  const std::int64_t first = of_row * shape.keys;
  const std::int64_t position = first + (positions == nullptr ? row.token : positions[number]);
  const Span document{spans[2 * position], spans[2 * position + 1]};
  const Span sees = visible_keys(mask, position, document);
  row.first = static_cast<std::int32_t>(sees.first - first);
  row.end = static_cast<std::int32_t>(sees.end - first);
  row.valid = shape.shorter_than == 0 || document.end - document.first < shape.shorter_than;
  return row;
}
// Returns the inverse positions of this row; null: positions are indices.
__device__ const std::int32_t* of_row(const std::int32_t* at, const Row& row, std::int64_t positions) {
  return at == nullptr ? nullptr : at + row.row * positions;
}
__device__ std::int32_t who(const std::int32_t* at, std::int32_t position) {
  return at == nullptr ? position : at[position];
}

template <class T, int kPer>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(DirectShape shape, const std::int32_t* spans, Places places, Heads q, Heads k, Heads v,
                   Heads output, SumOf<T>* logsumexp) {
  using Sum = SumOf<T>;
  const Row row = row_of_warp(shape, shape.mask, spans, shape.heads, shape.queries, places.of_query);
  if (!row.valid) return;
  const std::int64_t group = row.head / (shape.heads / shape.groups);
  const T *const keys = head_of<T>(k, row.row, group), *const values = head_of<T>(v, row.row, group);
  const std::int32_t* const key_at = of_row(places.key_at, row, shape.keys);
  const auto query = load<T, kPer>(head_of<T>(q, row.row, row.head) + row.token * q.token, shape.width);
  const Sum scale = static_cast<Sum>(shape.scale);
  Lane<Sum, kPer> result = {};
  Sum most = -INFINITY, total = 0;
  for (std::int32_t first = row.first; first < row.end; first += kAtOnce) {
    Sum scores[kAtOnce], now = most;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t key = who(key_at, min(first + i, row.end - 1));
      scores[i] = warp_sum(part(query, load<T, kPer>(keys + key * k.token, shape.width))) * scale;
      now = max(now, scores[i]);
    }
    const Sum shrink = exp(most - now);
    total *= shrink;
#pragma unroll
    for (int i = 0; i < kPer; ++i) result.at[i] *= shrink;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i >= row.end) break;
      const Sum weight = exp(scores[i] - now);
      total += weight;
      add(result, weight, load<T, kPer>(values + who(key_at, first + i) * v.token, shape.value_width));
    }
    most = now;
  }
  store<T, kPer>(head_of<T>(output, row.row, row.head) + row.token * output.token, result, shape.value_width,
                 Sum(1) / total);
  if (threadIdx.x % kWarp == 0) logsumexp[row.slot] = most + log(total);
}

// Computes gradients of queries, and the products of outputs and their gradients, which keys_kernel
// reads.
template <class T, int kPer>
__global__ void __launch_bounds__(kThreads)
    queries_kernel(DirectShape shape, const std::int32_t* spans, Places places, Heads grad, Heads q, Heads k,
                   Heads v, Heads output, const SumOf<T>* logsumexp, Heads grad_q, SumOf<T>* products) {
  using Sum = SumOf<T>;
  const Row row = row_of_warp(shape, shape.mask, spans, shape.heads, shape.queries, places.of_query);
  if (!row.valid) return;
  const std::int64_t group = row.head / (shape.heads / shape.groups);
  const auto own = [&](const Heads& x) { return head_of<T>(x, row.row, row.head) + row.token * x.token; };
  const auto query = load<T, kPer>(own(q), shape.width);
  const auto above = load<T, kPer>(own(grad), shape.value_width);
  const Sum product = warp_sum(part(above, load<T, kPer>(own(output), shape.value_width)));
  if (threadIdx.x % kWarp == 0) products[row.slot] = product;
  const Sum scale = static_cast<Sum>(shape.scale), total = logsumexp[row.slot];
  const T *const all_keys = head_of<T>(k, row.row, group), *const all_values = head_of<T>(v, row.row, group);
  const std::int32_t* const key_at = of_row(places.key_at, row, shape.keys);
  Lane<Sum, kPer> result = {};
#pragma unroll 2
  for (std::int32_t position = row.first; position < row.end; ++position) {
    const std::int64_t key = who(key_at, position);
    const auto keys = load<T, kPer>(all_keys + key * k.token, shape.width);
    const auto values = load<T, kPer>(all_values + key * v.token, shape.value_width);
    const Sum weight = exp(warp_sum(part(query, keys)) * scale - total);
    add(result, weight * (warp_sum(part(above, values)) - product), keys);
  }
  store<T, kPer>(own(grad_q), result, shape.width, scale);
}

// Computes gradients of keys and values. Sums over the heads of the group, and in each over the
// queries that see the key.
template <class T, int kPer>
__global__ void __launch_bounds__(kThreads)
    keys_kernel(DirectShape shape, const std::int32_t* spans, Places places, Heads grad, Heads q, Heads k,
                Heads v, const SumOf<T>* logsumexp, const SumOf<T>* products, Heads grad_k, Heads grad_v) {
  using Sum = SumOf<T>;
  const Row row =
      row_of_warp(shape, seen_from_keys(shape.mask), spans, shape.groups, shape.keys, places.of_key);
  if (!row.valid) return;
  const std::int64_t heads_of_group = shape.heads / shape.groups;
  const auto own = [&](const Heads& x) { return head_of<T>(x, row.row, row.head) + row.token * x.token; };
  const auto key = load<T, kPer>(own(k), shape.width);
  const auto value = load<T, kPer>(own(v), shape.value_width);
  const Sum scale = static_cast<Sum>(shape.scale);
  const std::int32_t* const query_at = of_row(places.query_at, row, shape.keys);
  Lane<Sum, kPer> key_result = {}, value_result = {};
  for (std::int64_t head = row.head * heads_of_group; head < (row.head + 1) * heads_of_group; ++head) {
    const T *const queries = head_of<T>(q, row.row, head), *const grads = head_of<T>(grad, row.row, head);
#pragma unroll 2
    for (std::int32_t position = row.first; position < row.end; ++position) {
      const std::int64_t token = who(query_at, position);
      if (token < 0) continue;
      const std::int64_t slot = (row.row * shape.heads + head) * shape.queries + token;
      const auto query = load<T, kPer>(queries + token * q.token, shape.width);
      const auto above = load<T, kPer>(grads + token * grad.token, shape.value_width);
      const Sum weight = exp(warp_sum(part(query, key)) * scale - logsumexp[slot]);
      add(value_result, weight, above);
      add(key_result, weight * (warp_sum(part(above, value)) - products[slot]), query);
    }
  }
  store<T, kPer>(own(grad_k), key_result, shape.width, scale);
  store<T, kPer>(own(grad_v), value_result, shape.value_width, Sum(1));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    sinks_kernel(std::int64_t slots, std::int64_t tokens, std::int64_t heads, std::int64_t width,
                 const T* sinks, T* output, SumOf<T>* logsumexp) {
  using Sum = SumOf<T>;
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kWarpsOfBlock + threadIdx.x / kWarp;
  if (warp >= slots) return;
  const std::int64_t head = warp % heads, number = warp / heads;  // the token's in all rows
  const std::int64_t slot = (number / tokens * heads + head) * tokens + number % tokens;
  // One lane reads and writes it: a shuffle would not order the reads of others before the write.
  const bool is_first = threadIdx.x % kWarp == 0;
  const Sum without = __shfl_sync(0xffffffffu, is_first ? logsumexp[slot] : Sum(0), 0);
  const Sum sink = widened(sinks[head]), most = max(sink, without);
  const Sum with = most + log(exp(sink - most) + exp(without - most)), share = exp(without - with);
  for (std::int64_t d = threadIdx.x % kWarp; d < width; d += kWarp) {
    T& element = output[warp * width + d];
    element = rounded<T>(widened(element) * share);
  }
  if (is_first) logsumexp[slot] = with;
}

// Calls body(T(), elements of a head per lane).
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

void add_sinks(Element element, std::int64_t slots, std::int64_t tokens, std::int64_t heads,
               std::int64_t value_width, const void* sinks, void* output, void* logsumexp,
               cudaStream_t stream) {
  with_dtype(element, [&](auto type) {
    launch(sinks_kernel<decltype(type)>, blocks_for(slots, kWarpsOfBlock), kThreads, stream, slots, tokens,
           heads, value_width, sinks, output, logsumexp);
  });
}

void who_stands_where(const std::int32_t* of_token, std::int64_t rows, std::int64_t tokens,
                      std::int64_t positions, std::int32_t* at, cudaStream_t stream) {
  launch(nobody_kernel, blocks_for(rows * positions, 256), 256, stream, rows * positions, at);
  launch(places_kernel, blocks_for(rows * tokens, 256), 256, stream, of_token, rows * tokens, tokens,
         positions, at);
}

void direct_forward(const DirectShape& shape, const std::int32_t* spans, const Places& places, const Heads& q,
                    const Heads& k, const Heads& v, const Heads& output, void* logsumexp,
                    cudaStream_t stream) {
  with_lanes(shape, [&](auto type, auto per) {
    using T = decltype(type);
    launch(forward_kernel<T, per>, blocks_for(shape.rows * shape.queries * shape.heads, kWarpsOfBlock),
           kThreads, stream, shape, spans, places, q, k, v, output, logsumexp);
  });
}

void direct_backward(const DirectShape& shape, const std::int32_t* spans, const Places& places,
                     const Heads& grad, const Heads& q, const Heads& k, const Heads& v, const Heads& output,
                     const void* logsumexp, const Heads& grad_q, const Heads& grad_k, const Heads& grad_v,
                     void* products, cudaStream_t stream) {
  with_lanes(shape, [&](auto type, auto per) {
    using T = decltype(type);
    const std::int64_t queries = shape.rows * shape.queries, keys = shape.rows * shape.keys;
    launch(queries_kernel<T, per>, blocks_for(queries * shape.heads, kWarpsOfBlock), kThreads, stream, shape,
           spans, places, grad, q, k, v, output, logsumexp, grad_q, products);
    launch(keys_kernel<T, per>, blocks_for(keys * shape.groups, kWarpsOfBlock), kThreads, stream, shape,
           spans, places, grad, q, k, v, logsumexp, products, grad_k, grad_v);
  });
}

}  // namespace rondo::cuda

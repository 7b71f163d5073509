// Divides attention among threads for the tiles of attention_tiles.cpp. Computes which keys each
// query sees, where rows are, and which unit computes them. In the forward, blocks of queries are
// independent. In the backward, a thread takes all queries and keys of a group at once. If there
// are too few groups for the threads, one pass over blocks of keys and one over blocks of queries
// compute the scores twice and add in the same order.
#include "ops/attention/attention_cpu.h"

#include <ATen/Parallel.h>
#include <ATen/cpu/Utils.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <numeric>
#include <type_traits>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/attention_tiles.h"
#include "ops/kernel/instructions.h"
#include "ops/kernel/with_dtype.h"

namespace rondo::attention_tiles {
namespace {

using at::Tensor;

// Element types of the tiles.
template <class T>
using Plain = std::conditional_t<std::is_same_v<T, at::BFloat16>, Bf16, T>;

template <class T>
const Kernels<T>& kernels_of(const Tiles& tiles) {
  if constexpr (std::is_same_v<T, float>) return tiles.f32;
  if constexpr (std::is_same_v<T, Bf16>) return tiles.bf16;
  if constexpr (std::is_same_v<T, double>) return tiles.f64;
}

const Tiles& best_tiles() {
  static const Tiles& best = *supported_attention_tiles().back();
  return best;
}

Tensor with_rows(const Tensor& x) { return x.stride(3) == 1 || x.size(3) == 1 ? x : x.contiguous(); }

template <class T>
Rows<T> rows_of_head(const Tensor& x_BHTD, std::int64_t batch, std::int64_t head) {
  auto* const data = static_cast<T*>(const_cast<void*>(x_BHTD.const_data_ptr()));
  return {data + batch * x_BHTD.stride(0) + head * x_BHTD.stride(1), x_BHTD.stride(2)};
}

// The elements of an int32 tensor, in order.
class Numbers {
 public:
  explicit Numbers(const std::optional<Tensor>& x) : tensor_(x ? x->contiguous() : Tensor()) {}
  explicit operator bool() const { return tensor_.defined(); }
  const std::int32_t* begin() const { return tensor_.const_data_ptr<std::int32_t>(); }
  const std::int32_t* end() const { return begin() + tensor_.numel(); }

 private:
  Tensor tensor_;
};

// Operands with rows that kernels can read, sizes, and the visible keys of each query.
struct Problem {
  Tensor q, k, v;
  std::int64_t batch, heads, groups, queries, keys, width, value_width;
  // [B, S], keys by their positions; empty: stored in this order
  std::vector<std::int32_t> key_order;
  std::vector<Visible> visible;  // [B, T], of keys in this order
  double scale;

  explicit Problem(const AttentionOperands& operands)
      : q(with_rows(operands.q)),
        k(with_rows(operands.k)),
        v(with_rows(operands.v)),
        batch(q.size(0)),
        heads(q.size(1)),
        groups(k.size(1)),
        queries(q.size(2)),
        keys(k.size(2)),
        width(q.size(3)),
        value_width(v.size(3)),
        scale(operands.scale) {
    const Numbers key_positions(operands.key_positions), query_positions(operands.query_positions),
        borders(operands.document_borders);
    if (key_positions) key_order.resize(static_cast<std::size_t>(batch * keys));
    visible.resize(static_cast<std::size_t>(batch * queries));
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::vector<std::int32_t> before =
          key_positions ? order_keys(b, key_positions.begin() + b * keys) : std::vector<std::int32_t>();
      for (std::int64_t t = 0; t < queries; ++t) {
        const std::int64_t position = query_positions ? query_positions.begin()[b * queries + t] : t;
        const Span seen = visible_keys(operands.mask, position, document_of(borders, b, position));
        // From positions to keys ordered by position.
        const auto key_at = [&](std::int64_t at) {
          if (!key_positions) return static_cast<std::int32_t>(std::clamp<std::int64_t>(at, 0, keys));
          return before[static_cast<std::size_t>(std::clamp<std::int64_t>(at, 0, std::ssize(before) - 1))];
        };
        visible[static_cast<std::size_t>(b * queries + t)] = {key_at(seen.first), key_at(seen.end)};
      }
    }
  }

  // Sorts a row's keys. Returns the number of keys before each position, up to the position after
  // the last key.
  std::vector<std::int32_t> order_keys(std::int64_t row, const std::int32_t* positions) {
    std::int32_t* const order = key_order.data() + row * keys;
    std::iota(order, order + keys, 0);
    std::sort(order, order + keys, [&](auto left, auto right) { return positions[left] < positions[right]; });
    std::vector<std::int32_t> before = {0};
    for (std::int32_t i = 0; i < keys; ++i) {
      before.resize(static_cast<std::size_t>(positions[order[i]]) + 1, i);
      before.push_back(i + 1);
    }
    return before;
  }

  Span document_of(const Numbers& borders, std::int64_t row, std::int64_t position) const {
    if (!borders) return {0, std::numeric_limits<std::int32_t>::max()};
    const std::int64_t begin = row * (borders.end()[-1] / batch);
    const std::int32_t* const behind = std::upper_bound(borders.begin(), borders.end(), begin + position);
    return {behind[-1] - begin, *behind - begin};
  }

  template <class T>
  void fill(Head<T>& head, std::int64_t b, std::int64_t h) const {
    const std::int64_t group = h / (heads / groups);
    head.q = rows_of_head<const T>(q, b, h);
    head.k = rows_of_head<const T>(k, b, group);
    head.v = rows_of_head<const T>(v, b, group);
    head.visible = visible.data() + b * queries;
    head.key_order = key_order.empty() ? nullptr : key_order.data() + b * keys;
    head.queries = queries, head.keys = keys, head.width = width, head.value_width = value_width;
    head.scale = scale;
  }
};

struct Freed {
  void operator()(std::byte* data) const { ::operator delete[](data, std::align_val_t(kAlignment)); }
};
using Memory = std::unique_ptr<std::byte[], Freed>;
Memory aligned(std::size_t bytes) {
  return Memory(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t(kAlignment))));
}

// Calls run(unit, memory) for each unit, on any free thread. Units are independent.
template <class F>
void for_each_unit(std::int64_t units, std::size_t bytes, const F& run) {
  std::atomic<std::int64_t> next = 0;
  at::parallel_for(0, std::min<std::int64_t>(units, at::get_num_threads()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     const Memory memory = aligned(bytes);
                     for (std::int64_t unit = next++; unit < units; unit = next++) run(unit, memory.get());
                   });
}

std::int64_t blocks_of(std::int64_t count, std::int64_t block) { return (count + block - 1) / block; }

// Returns the queries of a block: fewer if there would be too few blocks for the threads. Results
// do not depend on it.
std::int64_t queries_of_block(const Problem& p) {
  std::int64_t block = kBlock;
  while (block > kQueries && p.batch * p.heads * blocks_of(p.queries, block) < 4 * at::get_num_threads())
    block /= 2;
  return block;
}

template <class T>
void forward(const Problem& p, const std::optional<Tensor>& sinks, const Kernels<T>& kernels,
             const Tensor& output, const Tensor& logsumexp) {
  const std::int64_t block = queries_of_block(p), blocks = blocks_of(p.queries, block);
  for_each_unit(p.batch * p.heads * blocks, kernels.scratch_bytes(p.width, p.value_width),
                [&](std::int64_t unit, std::byte* scratch) {
                  const std::int64_t head = unit / blocks, b = head / p.heads, h = head % p.heads;
                  // In causal attention the last blocks take longest, so they come first.
                  const std::int64_t first = (blocks - 1 - unit % blocks) * block;
                  Forward<T> job;
                  p.fill(job, b, h);
                  job.sink =
                      sinks ? sinks->const_data_ptr<double>()[h] : -std::numeric_limits<double>::infinity();
                  job.output = rows_of_head<T>(output, b, h);
                  job.logsumexp = rows_of_head<SumOf<T>>(logsumexp.unsqueeze(3), b, h);
                  kernels.forward(job, first, std::min(first + block, p.queries), scratch);
                });
}

struct Gradients {
  Tensor grad, output, logsumexp;  // inputs, the last as [B, H, T, 1]
  Tensor grad_q, grad_k, grad_v;
};

template <class T>
Backward<T> backward_job(const Problem& p, const Gradients& g, std::int64_t b, std::int64_t h) {
  Backward<T> job;
  p.fill(job, b, h);
  job.grad = rows_of_head<const T>(g.grad, b, h);
  job.output = rows_of_head<const T>(g.output, b, h);
  job.logsumexp = rows_of_head<const SumOf<T>>(g.logsumexp, b, h);
  job.end_key = p.keys;
  return job;
}

template <class T>
void all_queries(const Backward<T>& job, const Kernels<T>& kernels, std::byte* scratch) {
  for (std::int64_t first = 0; first < job.queries; first += kBlock)
    kernels.backward(job, first, std::min(first + kBlock, job.queries), scratch);
}

// Computes gradients of keys in blocks of `block`, and in the same pass those of queries if
// `with_queries`.
template <class T>
void backward_keys(const Problem& p, const Gradients& g, const Kernels<T>& kernels, std::int64_t block,
                   bool with_queries) {
  // At least one block, even without keys: the gradients of queries are then zero.
  const std::int64_t blocks = std::max<std::int64_t>(1, blocks_of(p.keys, block)),
                     group_heads = p.heads / p.groups;
  const std::size_t scratch_bytes = kernels.scratch_bytes(p.width, p.value_width),
                    sums_bytes = kernels.key_sums_bytes(std::min(block, p.keys), p.width, p.value_width);
  for_each_unit(
      p.batch * p.groups * blocks, scratch_bytes + sums_bytes, [&](std::int64_t unit, std::byte* memory) {
        const std::int64_t pair = unit / blocks, b = pair / p.groups, group = pair % p.groups;
        const std::int64_t first = unit % blocks * block, end = std::min(first + block, p.keys);
        std::fill_n(memory + scratch_bytes, sums_bytes, std::byte(0));
        auto* const sums = reinterpret_cast<SumOf<T>*>(memory + scratch_bytes);
        for (std::int64_t h = group * group_heads; h < (group + 1) * group_heads; ++h) {
          Backward<T> job = backward_job<T>(p, g, b, h);
          if (with_queries) job.grad_q = rows_of_head<T>(g.grad_q, b, h);
          job.key_sums = sums, job.first_key = first, job.end_key = end;
          all_queries(job, kernels, memory);
        }
        const Rows<T> grad_k = rows_of_head<T>(g.grad_k, b, group),
                      grad_v = rows_of_head<T>(g.grad_v, b, group);
        for (std::int64_t position = first; position < end; ++position) {
          const std::int64_t key =
              p.key_order.empty() ? position : p.key_order[static_cast<std::size_t>(b * p.keys + position)];
          kernels.write_key_sums(sums, position - first, p.scale, p.width, p.value_width, grad_k[key],
                                 grad_v[key]);
        }
      });
}

template <class T>
void backward_queries(const Problem& p, const Gradients& g, const Kernels<T>& kernels) {
  const std::int64_t block = queries_of_block(p), blocks = blocks_of(p.queries, block);
  for_each_unit(p.batch * p.heads * blocks, kernels.scratch_bytes(p.width, p.value_width),
                [&](std::int64_t unit, std::byte* scratch) {
                  const std::int64_t head = unit / blocks, first = (blocks - 1 - unit % blocks) * block;
                  Backward<T> job = backward_job<T>(p, g, head / p.heads, head % p.heads);
                  job.grad_q = rows_of_head<T>(g.grad_q, head / p.heads, head % p.heads);
                  kernels.backward(job, first, std::min(first + block, p.queries), scratch);
                });
}

template <class T>
void backward(const Problem& p, const Gradients& g, const Kernels<T>& kernels) {
  // Two passes take 7 products instead of 5, so threads may idle for a quarter of the time.
  const std::int64_t units = p.batch * p.groups, threads = at::get_num_threads();
  const std::int64_t rounds = blocks_of(units, threads);
  if (units * 4 >= rounds * threads * 3) {
    backward_keys(p, g, kernels, std::max<std::int64_t>(1, p.keys), true);
  } else {
    backward_keys(p, g, kernels, 2 * kKeys, false);
    backward_queries(p, g, kernels);
  }
}

std::tuple<Tensor, Tensor> forward(const AttentionOperands& operands, const Tiles& tiles) {
  const Problem problem(operands);
  Tensor output = empty_heads(problem.q, problem.value_width), logsumexp = empty_logsumexp(problem.q);
  std::optional<Tensor> sinks;
  if (operands.sinks) sinks = operands.sinks->to(at::kDouble).contiguous();
  with_dtype(problem.q, "attention", [&](auto element) {
    using T = Plain<decltype(element)>;
    forward<T>(problem, sinks, kernels_of<T>(tiles), output, logsumexp);
  });
  return {output, logsumexp};
}

std::tuple<Tensor, Tensor, Tensor> backward(const AttentionOperands& operands, const Tensor& grad,
                                            const Tensor& output, const Tensor& logsumexp,
                                            const Tiles& tiles) {
  const Problem problem(operands);
  const Gradients gradients = {with_rows(grad),        with_rows(output),      logsumexp.unsqueeze(3),
                               empty_heads(problem.q), empty_heads(problem.k), empty_heads(problem.v)};
  with_dtype(problem.q, "attention_backward", [&](auto element) {
    using T = Plain<decltype(element)>;
    backward<T>(problem, gradients, kernels_of<T>(tiles));
  });
  return {gradients.grad_q, gradients.grad_k, gradients.grad_v};
}

}  // namespace
}  // namespace rondo::attention_tiles

namespace rondo {

using at::Tensor;
using attention_tiles::Tiles;

std::vector<const Tiles*> supported_attention_tiles() {
  using namespace attention_tiles;  // NOLINT(google-build-using-namespace)
  std::vector<const Tiles*> supported = {&portable};
#ifdef __x86_64__
  const VectorInstructions best = best_vector_instructions();
  if (best != VectorInstructions::any && __builtin_cpu_supports("x86-64-v3")) supported.push_back(&avx2);
  if (best != VectorInstructions::avx512 || !__builtin_cpu_supports("x86-64-v4")) return supported;
  supported.push_back(&avx512);
  static const Tiles with_dot_products = {"avx512_bf16", avx512.f32, avx512_bf16, avx512.f64},
                     with_amx = {"amx", avx512.f32, amx, avx512.f64};
  if (!__builtin_cpu_supports("avx512bf16")) return supported;
  supported.push_back(&with_dot_products);
  if (__builtin_cpu_supports("amx-bf16") && at::cpu::init_amx()) supported.push_back(&with_amx);
#endif
  return supported;
}

std::tuple<Tensor, Tensor> attention_forward_cpu(const AttentionOperands& operands, const Tiles* tiles) {
  return attention_tiles::forward(operands, tiles ? *tiles : attention_tiles::best_tiles());
}

std::tuple<Tensor, Tensor, Tensor> attention_backward_cpu(const AttentionOperands& operands,
                                                          const Tensor& grad, const Tensor& output,
                                                          const Tensor& logsumexp, const Tiles* tiles) {
  return attention_tiles::backward(operands, grad, output, logsumexp,
                                   tiles ? *tiles : attention_tiles::best_tiles());
}

}  // namespace rondo

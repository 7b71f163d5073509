// CUDA kernels of Rondo for ops/attention/attention.h: attention with any mask
// (AttentionKernel::direct), sequences of documents and chunks for flash, and sinks. They run on
// `stream`, do not wait, allocate no memory and use no atomics, so results repeat. No LibTorch.
//
// Tokens are counted over all rows of the batch: B * T queries, B * S keys and positions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/attention/attention_mask.h"
#include "ops/kernel/device.h"
#include "ops/kernel/element.h"

namespace rondo::cuda {

// --- direct ---

// [B, heads, T, width] with strides in elements. The elements of a head are contiguous.
struct Heads {
  void* data;
  std::int64_t row, head, token;
};

struct DirectShape {
  Element element;
  std::int64_t rows, queries, keys, heads, groups, width, value_width;  // B, T, S, H, G, D, V
  double scale;
  std::int64_t shorter_than;  // only documents with fewer tokens; 0: all
  AttentionMask mask;         // without chunks, which are documents here
};

// Writes spans [B * S, 2]: begin and end of the document of each position. `borders` [count] is as
// in ops/attention/attention.h; null: each row is one document.
void document_spans(const std::int32_t* borders, std::int64_t count, std::int64_t rows, std::int64_t tokens,
                    std::int32_t* spans, cudaStream_t stream);

// Positions of queries and keys, and their inverses. All null: T = S, and positions are indices.
struct Places {
  // [B, T], [B, S]: positions in the row
  const std::int32_t *of_query = nullptr, *of_key = nullptr;
  const std::int32_t *query_at = nullptr, *key_at = nullptr;  // [B * S]: index in the row, or -1
};
// Writes the inverse `at` [B * positions] of positions [rows, tokens], each below `positions`.
void who_stands_where(const std::int32_t* of_token, std::int64_t rows, std::int64_t tokens,
                      std::int64_t positions, std::int32_t* at, cudaStream_t stream);

// logsumexp [B, H, T] has the type of sums: fp64 for fp64, else fp32.
void direct_forward(const DirectShape& shape, const std::int32_t* spans, const Places& places, const Heads& q,
                    const Heads& k, const Heads& v, const Heads& output, void* logsumexp,
                    cudaStream_t stream);

// `products` is memory for B * T * H numbers of the type of sums.
void direct_backward(const DirectShape& shape, const std::int32_t* spans, const Places& places,
                     const Heads& grad, const Heads& q, const Heads& k, const Heads& v, const Heads& output,
                     const void* logsumexp, const Heads& grad_q, const Heads& grad_k, const Heads& grad_v,
                     void* products, cudaStream_t stream);

// --- chunks and sinks ---

// Writes pieces [B * T + 1], the borders of the chunks of all documents, from the documents' spans.
// The tail repeats B * T.
void cut_documents(const std::int32_t* spans, std::int64_t all, std::int64_t chunk, std::int32_t* pieces,
                   cudaStream_t stream);

// Adds sinks to the output and logsumexp of attention without sinks, in place. `slots` = B * T * H;
// output [B, T, H, V], logsumexp [B, H, T], sinks [H] of the output's type.
void add_sinks(Element element, std::int64_t slots, std::int64_t tokens, std::int64_t heads,
               std::int64_t value_width, const void* sinks, void* output, void* logsumexp,
               cudaStream_t stream);

// --- sequences for flash: Note [Short documents] in ops/attention/attention_library.cpp ---

// Returns the maximum number of sequences for flash in rows of the batch of so many tokens each.
// Each row begins a sequence, and each long document begins one and ends one.
RONDO_DEVICE constexpr std::int64_t most_sequences(std::int64_t rows, std::int64_t tokens,
                                                   std::int64_t shorter_than) {
  return rows + 2 * (rows * tokens / shorter_than);
}

// Whether a sequence begins with document i of `borders` (ops/attention/attention.h). A long
// document is one sequence. The short documents between two long ones of a row form one sequence.
RONDO_DEVICE inline bool sequence_begins(const std::int32_t* borders, std::int64_t i, std::int64_t tokens,
                                         std::int64_t shorter_than) {
  const std::int32_t begin = borders[i], length = borders[i + 1] - begin;
  if (length == 0) return false;
  return begin % tokens == 0 || length >= shorter_than || (i > 0 && begin - borders[i - 1] >= shorter_than);
}

// Writes sequences [room + 1]: the borders, with each run of documents of fewer than `shorter_than`
// tokens in a row merged into one. The tail repeats B * T. REQUIRES: room >= most_sequences(rows,
// tokens, shorter_than).
void merge_short_documents(const std::int32_t* borders, std::int64_t count, std::int64_t rows,
                           std::int64_t tokens, std::int64_t shorter_than, std::int32_t* sequences,
                           std::int64_t room, cudaStream_t stream);

// --- runs of queries for flash: Note [Runs of queries] there ---

// Writes the sequences of the run of `length` queries that begins with query `first` of each row.
// of_queries [count + rows] has borders among the run's queries of all rows, B * length; of_keys
// [count + rows] among B * S. `borders` [count] are those of all rows in order, ending with B * S.
// Null: each row is one sequence, and count is rows + 1. positions is [B, T].
struct RunOfQueries {
  std::int64_t first, length, queries;  // queries: T
  const std::int32_t* positions;
};
void sequences_of_run(const std::int32_t* borders, std::int64_t count, std::int64_t rows, std::int64_t keys,
                      const RunOfQueries& run, std::int32_t* of_queries, std::int32_t* of_keys,
                      cudaStream_t stream);

// --- sequences for cuDNN ---

constexpr int kMaxStrides = 10;
struct TokenStrides {
  std::int64_t elements[kMaxStrides];  // from a token to the next
  int count;
};

// Writes lengths [sequences] and, for each stride, begins [strides.count, sequences + 1]: the index
// of a sequence's first element in a tensor of that stride. `borders` [sequences + 1] is ascending.
void ragged_sequences(const std::int32_t* borders, std::int64_t sequences, const TokenStrides& strides,
                      std::int32_t* lengths, std::int64_t* begins, cudaStream_t stream);

}  // namespace rondo::cuda

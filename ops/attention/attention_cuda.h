// The kernels of ops/attention/attention.h that are ours, on CUDA: attention with any mask
// (AttentionKernel::direct), what flash needs to know of documents and chunks, and sinks. Launched on
// `stream`; no wait, no memory of their own, no atomics: results repeat. No LibTorch.
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

// [B, heads, T, width] with strides in elements; a head's elements are side by side.
struct Heads {
  void* data;
  std::int64_t row, head, token;
};

struct DirectShape {
  Element element;
  std::int64_t rows, queries, keys, heads, groups, width, value_width;  // B, T, S, H, G, D, V
  double scale;
  std::int64_t shorter_than;  // only documents with fewer tokens; 0: all
  AttentionMask mask;         // its chunks are documents here
};

// spans [B * S, 2]: where the document of each position begins and ends. `borders` [count] as in
// ops/attention/attention.h; null: each row is one document.
void document_spans(const std::int32_t* borders, std::int64_t count, std::int64_t rows, std::int64_t tokens,
                    std::int32_t* spans, cudaStream_t stream);

// Where queries and keys stand, and who stands where. All null: T = S, and each stands at its own number.
struct Places {
  const std::int32_t *of_query = nullptr, *of_key = nullptr;  // [B, T], [B, S]: positions in the row
  const std::int32_t *query_at = nullptr, *key_at = nullptr;  // [B * S]: its number in the row, or -1
};
// at [B * positions], for positions [rows, tokens] below `positions` each.
void who_stands_where(const std::int32_t* of_token, std::int64_t rows, std::int64_t tokens,
                      std::int64_t positions, std::int32_t* at, cudaStream_t stream);

// logsumexp [B * T, H], of the type that is summed in: fp64 for fp64, else fp32.
void direct_forward(const DirectShape& shape, const std::int32_t* spans, const Places& places, const Heads& q,
                    const Heads& k, const Heads& v, const Heads& output, void* logsumexp,
                    cudaStream_t stream);

// `products`: memory for B * T * H numbers of the type that is summed in.
void direct_backward(const DirectShape& shape, const std::int32_t* spans, const Places& places,
                     const Heads& grad, const Heads& q, const Heads& k, const Heads& v, const Heads& output,
                     const void* logsumexp, const Heads& grad_q, const Heads& grad_k, const Heads& grad_v,
                     void* products, cudaStream_t stream);

// --- chunks and sinks ---

// pieces [B * T + 1]: borders of the chunks of all documents, from the documents' spans; the tail repeats
// B * T.
void cut_documents(const std::int32_t* spans, std::int64_t all, std::int64_t chunk, std::int32_t* pieces,
                   cudaStream_t stream);

// Output and logsumexp of attention without sinks become those with them. `slots` = B * T * H; output
// [slots, V], logsumexp [slots], sinks [H] of the output's type.
void add_sinks(Element element, std::int64_t slots, std::int64_t heads, std::int64_t value_width,
               const void* sinks, void* output, void* logsumexp, cudaStream_t stream);

// --- sequences for flash: Note [Short documents] in ops/attention/attention_library.cpp ---

// How many sequences flash needs at most for so many rows of the batch of so many tokens each, whatever
// documents they hold: each row begins one, each long document does, and so does what follows a long
// document.
RONDO_DEVICE constexpr std::int64_t most_sequences(std::int64_t rows, std::int64_t tokens,
                                                   std::int64_t shorter_than) {
  return rows + 2 * (rows * tokens / shorter_than);
}

// Whether a sequence begins with document i of `borders` (ops/attention/attention.h). Long documents are
// sequences of their own; what short ones lie between them in a row are one together.
RONDO_DEVICE inline bool sequence_begins(const std::int32_t* borders, std::int64_t i, std::int64_t tokens,
                                         std::int64_t shorter_than) {
  const std::int32_t begin = borders[i], length = borders[i + 1] - begin;
  if (length == 0) return false;
  return begin % tokens == 0 || length >= shorter_than || (i > 0 && begin - borders[i - 1] >= shorter_than);
}

// sequences [room + 1]: borders again, with each run of documents of a row that have fewer than
// `shorter_than` tokens as one; the tail repeats B * T. REQUIRES: room >= most_sequences(rows, tokens,
// shorter_than).
void merge_short_documents(const std::int32_t* borders, std::int64_t count, std::int64_t rows,
                           std::int64_t tokens, std::int64_t shorter_than, std::int32_t* sequences,
                           std::int64_t room, cudaStream_t stream);

// --- runs of queries for flash: Note [Runs of queries] there, too ---

// Sequences of the run of `length` queries that begins with query `first` of each row, [count + rows] each:
// borders of queries in the run's tokens of all rows, B * length, and of keys in B * S. `borders` [count] of
// all rows in order, ending with B * S; null: each row is one, and count is rows + 1. positions [B, T].
struct RunOfQueries {
  std::int64_t first, length, queries;  // queries: T
  const std::int32_t* positions;
};
void sequences_of_run(const std::int32_t* borders, std::int64_t count, std::int64_t rows, std::int64_t keys,
                      const RunOfQueries& run, std::int32_t* of_queries, std::int32_t* of_keys,
                      cudaStream_t stream);

}  // namespace rondo::cuda

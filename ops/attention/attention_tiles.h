// The interface between attention_cpu.cpp and the tiles: one query head's block of queries, forward
// or backward. The same source is compiled for several sets of vector instructions
// (ops/CMakeLists.txt). Unlike the loops of ops/kernel/parallel_rows.h, tiles use vectors of a
// set's width and contract products and sums. No LibTorch: the linker must not pick a standard
// function compiled for AVX-512 for the whole program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::attention_tiles {

constexpr int kQueries = 32;                    // of a tile
constexpr int kKeys = 128;                      // positions of a tile
constexpr int kBlockTiles = 8;                  // query tiles that share the packed keys of a tile
constexpr int kBlock = kQueries * kBlockTiles;  // queries of a block

struct Bf16 {
  std::uint16_t bits;
};

// Positions [first, end) that a query sees.
struct Visible {
  std::int32_t first, end;
};

// One head's rows of a tensor. The elements of a row are contiguous.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t distance = 0;  // elements from row to row
  T* operator[](std::int64_t row) const { return data + row * distance; }
};

// A query head of one row of the batch.
template <class T>
struct Head {
  Rows<const T> q, k, v;
  const Visible* visible = nullptr;         // of each query
  const std::int32_t* key_order = nullptr;  // row of k and v by position; null: in order
  std::int64_t queries = 0, keys = 0, width = 0, value_width = 0;
  double scale = 1;
};

template <class T>
struct Forward : Head<T> {
  double sink = 0;  // -infinity: no sink
  Rows<T> output;
  Rows<SumOf<T>> logsumexp;  // rows of one number
};

template <class T>
struct Backward : Head<T> {
  Rows<const T> grad, output;
  Rows<const SumOf<T>> logsumexp;
  Rows<T> grad_q;                // no data: not computed
  SumOf<T>* key_sums = nullptr;  // of keys from first_key, aligned like scratch; null: not computed
  std::int64_t first_key = 0, end_key = 0;  // positions; first_key is a multiple of kKeys
};

template <class T>
struct Kernels {
  // Queries [first, end): at most one block, from a multiple of kQueries on.
  void (*forward)(const Forward<T>&, std::int64_t first, std::int64_t end, std::byte* scratch);
  // Adds to key_sums and writes grad_q.
  void (*backward)(const Backward<T>&, std::int64_t first, std::int64_t end, std::byte* scratch);
  // Writes the sums of the key at first_key + i to its gradients.
  void (*write_key_sums)(const SumOf<T>* key_sums, std::int64_t i, double scale, std::int64_t width,
                         std::int64_t value_width, T* grad_k, T* grad_v);
  std::size_t (*scratch_bytes)(std::int64_t width, std::int64_t value_width);
  std::size_t (*key_sums_bytes)(std::int64_t keys, std::int64_t width, std::int64_t value_width);
};

// Alignment of scratch and key_sums in bytes.
constexpr std::size_t kAlignment = 64;

struct Tiles {
  const char* name;
  Kernels<float> f32;
  Kernels<Bf16> bf16;
  Kernels<double> f64;
};

extern const Tiles portable, avx2, avx512;

// For machines that multiply bf16 in pairs: by AVX-512 dot products, or by AMX tiles.
extern const Kernels<Bf16> avx512_bf16, amx;

}  // namespace rondo::attention_tiles
